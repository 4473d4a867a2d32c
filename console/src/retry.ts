// A new run that continues before the step that failed.
import { type RunEvent, call } from "./api";

/** The event at which the failed node began its last visit. */
export function failedAt(events: readonly RunEvent[], node: string): number | null {
  let found: { visit: unknown; seq: number } | null = null;
  for (const event of events) {
    if (event.type !== "node.started" || event.nodeId !== node) continue;
    const { visit } = event.payload as { visit?: unknown };
    if (!found || found.visit !== visit) found = { visit, seq: event.sequence };
  }
  return found?.seq ?? null;
}

/** Branches a failed run before its failed step; returns the new run. */
export async function retry(runId: string): Promise<string> {
  const path = { runId };
  const { failedNodeId } = await call("get", "/v1/runs/{runId}", { path });
  const events: RunEvent[] = [];
  for (;;) {
    const query = { timeout: 0, lastSequence: events.at(-1)?.sequence };
    const page = await call("get", "/v1/runs/{runId}/events/poll", { path, query });
    events.push(...page.events);
    if (page.events.length === 0 || page.isComplete) break;
  }
  const fromSeq = failedNodeId ? failedAt(events, failedNodeId) : null;
  if (fromSeq === null) throw new Error("The run did not fail at a step, so none can be repeated.");
  const body = { mode: "branch" as const, fromSeq };
  return (await call("post", "/v1/runs/{runId}:fork", { path, body })).runId;
}
