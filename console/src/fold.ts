// Events folded into a view. The same function serves the present and any earlier event.
import type { RunEvent } from "./api";
import {
  type Attempt,
  type Call,
  type Fields,
  type Json,
  type NodeView,
  type Problem,
  type RunView,
  type Wait,
  emptyView,
  fields,
  number,
  problem,
  text,
} from "./view";

/** The view after these events. */
export function foldAll(events: readonly RunEvent[], to = Infinity): RunView {
  const view = emptyView();
  const fold = new Fold(view);
  for (const event of events) {
    if (event.sequence > to) break;
    fold.apply(event);
  }
  return view;
}

/** Folds events into a view that it changes. */
export class Fold {
  private open = new Map<string, Attempt>();
  private calling = new Map<string, Call>();
  private asking = new Map<string, Wait>();

  constructor(readonly view: RunView) {}

  apply(event: RunEvent): void {
    const { view } = this;
    const at = Date.parse(event.timestamp);
    const payload = fields(event.payload as Json);
    const id = event.nodeId ?? text(payload.nodeId);
    view.lastAt = at;
    view.lastSeq = event.sequence;
    switch (event.type) {
      case "run.started":
        view.status = "running";
        view.startedAt = at;
        view.workflowId = text(payload.workflowId);
        view.inputs = payload.inputs ?? {};
        for (const [name, value] of Object.entries(fields(payload.variables ?? payload.inputs))) {
          view.variables.set(name, value);
        }
        return;
      case "run.completed":
        return this.settle("completed", at, payload);
      case "run.failed":
        view.error = problem(payload.error);
        view.failedNode = text(payload.failedNodeId) || null;
        return this.settle("failed", at, payload);
      case "run.cancelled":
        view.reason = text(payload.reason);
        return this.settle("cancelled", at, payload);
      case "runwright.run.draining":
        view.status = "draining";
        return;
      case "run.paused":
        view.status = "paused";
        view.reason = text(payload.reason);
        return;
      case "run.resumed":
        view.status = "running";
        return;
      case "node.started":
        return this.started(event, id, at, payload);
      case "node.completed":
        return this.ended(event, id, at, "completed", payload);
      case "node.failed":
        return this.ended(event, id, at, "failed", payload);
      case "node.cancelled":
        return this.ended(event, id, at, "cancelled", payload);
      case "node.skipped":
        this.node(id).status = "skipped";
        return;
      case "node.retried": {
        const error = problem(payload.lastError);
        this.close(event, id, at, "failed", { error });
        const node = this.node(id);
        node.status = "retrying";
        node.error = error;
        const until = at + number(payload.delayMs);
        view.waits.push({ node: id, kind: "retry", from: at, to: until, label: "waits to retry" });
        return;
      }
      case "node.suspended": {
        const node = this.node(id);
        node.status = "suspended";
        view.status = waiting(text(payload.kind));
        const attempt = this.open.get(id);
        if (attempt) {
          attempt.outcome = "suspended";
          attempt.suspendedAt = at;
        }
        const label = text(payload.kind) || "question";
        this.wait(id, { node: id, kind: "question", from: at, to: null, label });
        return;
      }
      case "node.resumed":
        this.node(id).status = "running";
        view.status = "running";
        this.unwait(id, at);
        return;
      case "node.dispatched":
        this.node(id).child = text(payload.childRunId) || null;
        this.wait(id, { node: id, kind: "child", from: at, to: null, label: "child run" });
        return;
      case "output.chunk":
        return this.chunk(event, id, at, payload);
      case "log.appended":
        view.logs.push({
          seq: event.sequence,
          at,
          node: id,
          level: text(payload.level) || "info",
          message: text(payload.message),
        });
        return;
      case "variable.changed":
        view.variables.set(text(payload.name), payload.next ?? payload.value ?? null);
        return;
      case "channel.written":
        view.channels.set(text(payload.channel), payload.value ?? null);
        return;
      case "artifact.created":
        view.artifacts += 1;
        return;
      case "provider.usage":
        return this.usage(event, id, at, payload);
      case "agent.toolCalled":
        return this.toolCalled(event, id, at, payload);
      case "agent.toolReturned":
        return this.toolReturned(id, at, payload);
      default:
    }
  }

  private node(id: string): NodeView {
    let node = this.view.nodes.get(id);
    if (!node) {
      node = {
        id,
        status: "pending",
        visits: 0,
        attempts: 0,
        from: null,
        to: null,
        error: null,
        child: null,
      };
      this.view.nodes.set(id, node);
    }
    return node;
  }

  private started(event: RunEvent, id: string, at: number, payload: Fields): void {
    const { view } = this;
    this.close(event, id, at, "failed", {});
    const node = this.node(id);
    const visit = number(payload.visit);
    if (visit + 1 > node.visits) {
      node.visits = visit + 1;
      node.from = at;
      node.attempts = 0;
    }
    node.status = "running";
    node.attempts += 1;
    node.to = null;
    node.error = null;
    const last = view.waits.findLast((wait) => wait.node === id && wait.kind === "retry");
    if (last?.to && last.to > at) last.to = at;
    const attempt: Attempt = {
      node: id,
      visit,
      attempt: number(payload.attempt),
      typeId: text(payload.typeId),
      from: at,
      to: null,
      suspendedAt: null,
      outcome: "running",
      firstSeq: event.sequence,
      lastSeq: event.sequence,
      inputs: payload.inputs ?? {},
      outputs: null,
      error: null,
    };
    view.attempts.push(attempt);
    this.open.set(id, attempt);
  }

  private ended(
    event: RunEvent,
    id: string,
    at: number,
    outcome: "completed" | "failed" | "cancelled",
    payload: Fields,
  ): void {
    const node = this.node(id);
    node.status = outcome;
    node.to = at;
    node.error = outcome === "failed" ? problem(payload.error) : null;
    this.unwait(id, at);
    this.close(event, id, at, outcome, {
      outputs: payload.outputs ?? null,
      error: node.error,
    });
    if (this.asking.size === 0 && !this.view.settled) this.view.status = "running";
  }

  private close(
    event: RunEvent,
    id: string,
    at: number,
    outcome: Attempt["outcome"],
    more: { outputs?: Json; error?: Problem | null },
  ): void {
    const attempt = this.open.get(id);
    if (!attempt) return;
    attempt.to = at;
    attempt.outcome = outcome;
    attempt.lastSeq = event.sequence;
    attempt.outputs = more.outputs ?? null;
    attempt.error = more.error ?? null;
    this.open.delete(id);
    const key = `${id} ${attempt.visit} ${attempt.attempt}`;
    const call = this.calling.get(key);
    if (call) {
      call.to = at;
      call.status = outcome === "completed" ? "ok" : "failed";
      call.error = attempt.error;
      const outputs = fields(attempt.outputs ?? null);
      call.output = outputs.json ?? null;
      const content = text(outputs.content);
      if (content) call.text = content;
      this.calling.delete(key);
    }
  }

  private wait(id: string, wait: Wait): void {
    this.view.waits.push(wait);
    this.asking.set(id, wait);
  }

  private unwait(id: string, at: number): void {
    const wait = this.asking.get(id);
    if (wait) wait.to = at;
    this.asking.delete(id);
  }

  private settle(status: string, at: number, payload: Fields): void {
    const { view } = this;
    view.status = status;
    view.settled = true;
    view.endedAt = at;
    view.outputs = payload.outputs ?? null;
    for (const wait of this.asking.values()) wait.to = at;
  }

  private chunk(event: RunEvent, id: string, at: number, payload: Fields): void {
    const channel = text(payload.channel) || "stdout";
    const chunk = text(payload.chunk);
    const visit = number(payload.visit);
    const attempt = number(payload.attempt);
    if (channel === "text") {
      const call = this.model(event, id, at, visit, attempt);
      call.text += chunk;
      const usage = fields(fields(payload.meta).usage);
      if (Object.keys(usage).length > 0) call.usage = usage;
      return;
    }
    if (chunk === "") return;
    this.view.output.push({
      seq: event.sequence,
      at,
      node: id,
      visit,
      attempt,
      restart: number(payload.restart),
      channel,
      text: chunk,
    });
  }

  private model(event: RunEvent, id: string, at: number, visit: number, attempt: number): Call {
    const key = `${id} ${visit} ${attempt}`;
    const known = this.calling.get(key);
    if (known) return known;
    const open = this.open.get(id);
    const call: Call = {
      kind: "model",
      node: id,
      visit,
      attempt,
      name: "model",
      from: open?.from ?? at,
      to: null,
      seq: event.sequence,
      status: "running",
      input: open?.inputs ?? null,
      output: null,
      text: "",
      usage: null,
      error: null,
    };
    this.view.calls.push(call);
    this.calling.set(key, call);
    return call;
  }

  private usage(event: RunEvent, id: string, at: number, payload: Fields): void {
    const { view } = this;
    const open = this.open.get(id);
    const call = this.model(event, id, at, open?.visit ?? 0, open?.attempt ?? 0);
    call.name = [text(payload.provider), text(payload.model)].filter(Boolean).join(" / ") || "model";
    call.usage = payload;
    view.tokens.input += number(payload.inputTokens);
    view.tokens.output += number(payload.outputTokens);
    const usd = payload.costEstimateUsd ?? payload.usd;
    if (typeof usd === "number") view.usd = (view.usd ?? 0) + usd;
  }

  private toolCalled(event: RunEvent, id: string, at: number, payload: Fields): void {
    const call: Call = {
      kind: "tool",
      node: id,
      visit: number(payload.visit),
      attempt: number(payload.attempt),
      name: text(payload.toolName),
      from: at,
      to: null,
      seq: event.sequence,
      status: "running",
      input: payload.inputs ?? null,
      output: null,
      text: "",
      usage: null,
      error: null,
    };
    this.view.calls.push(call);
    this.calling.set(`tool ${id} ${text(payload.callId)}`, call);
  }

  private toolReturned(id: string, at: number, payload: Fields): void {
    const key = `tool ${id} ${text(payload.callId)}`;
    const call = this.calling.get(key);
    if (!call) return;
    call.to = at;
    call.error = problem(payload.error);
    call.status = call.error ? "failed" : "ok";
    call.output = payload.outcome ?? null;
    this.calling.delete(key);
  }
}

function waiting(kind: string): string {
  if (kind === "approval" || kind === "low-confidence") return "waiting-approval";
  return kind === "external-event" ? "waiting-external" : "waiting-input";
}
