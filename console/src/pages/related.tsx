// Children, forks, and the comparison with another run.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type RunEvent, type RunRow, call } from "../api";
import { type Fields, type Json, fields, text } from "../view";
import { plain, short } from "../format";
import { pretty } from "../json";
import { href, requery, route } from "../route";
import type { RunModel } from "../run";
import { Empty, Problems, Status } from "../ui";
import { changes } from "../words";

export function RelatedTab({ model, offline }: { model: RunModel; offline: boolean }) {
  const children = model.snapshot.value?.childRuns ?? [];
  const origin = model.snapshot.value?.forkedFrom;
  const against = route.value.query.get("against") ?? "";
  return (
    <div class="tab sections">
      <section>
        <h2>Child runs</h2>
        {children.length === 0 ? (
          <p class="faint">This run started no other.</p>
        ) : (
          <table class="rows">
            <tbody>
              {children.map((child) => (
                <tr key={child.runId}>
                  <td>
                    <Status status={child.status} />
                  </td>
                  <td>{plain(child.workflowId ?? "")}</td>
                  <td>
                    <a class="mono" href={href(["runs", child.runId])}>
                      {plain(short(child.runId))}
                    </a>
                  </td>
                  <td class="faint">{plain(child.nodeId ?? "")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {!offline && (
        <section>
          <h2>Compare</h2>
          <CompareForm model={model} origin={origin?.runId} against={against} />
          {against && <Comparison a={against} model={model} />}
        </section>
      )}
    </div>
  );
}

function CompareForm(props: { model: RunModel; origin: string | undefined; against: string }) {
  const others = useSignal<RunRow[]>([]);
  const workflowId = props.model.snapshot.value?.workflowId ?? "";
  useEffect(() => {
    call("get", "/v1/runs", { query: { workflowId, limit: 50 } })
      .then((page) => (others.value = page.runs.filter((row) => row.runId !== props.model.id)))
      .catch(() => undefined);
  }, [workflowId]);
  return (
    <div class="filters">
      <label class="filter grow">
        <span>With run</span>
        <select
          value={props.against}
          onChange={(event) => requery({ against: event.currentTarget.value })}
        >
          <option value="">Choose a run…</option>
          {props.origin && <option value={props.origin}>its source {short(props.origin)}</option>}
          {others.value
            .filter((row) => row.runId !== props.origin)
            .map((row) => (
              <option key={row.runId} value={row.runId}>
                {short(row.runId)} {row.status} {row.createdAt.slice(0, 19).replace("T", " ")}
              </option>
            ))}
        </select>
      </label>
    </div>
  );
}

interface Side {
  seq: number;
  type: string;
  node: string;
  payload: Json;
}

function sideOf(event: RunEvent | undefined): Side | null {
  if (!event) return null;
  return {
    seq: event.sequence,
    type: event.type,
    node: event.nodeId ?? "",
    payload: event.payload as Json,
  };
}

/** Two runs next to each other, from the first difference. */
function Comparison({ a, model }: { a: string; model: RunModel }) {
  void model.version.value;
  const other = useSignal<RunEvent[] | null>(null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    other.value = null;
    error.value = null;
    let over = false;
    readAll(a)
      .then((events) => {
        if (!over) other.value = events;
      })
      .catch((failed: unknown) => {
        if (!over) error.value = failed;
      });
    return () => void (over = true);
  }, [a]);
  if (error.value !== null) return <Problems error={error.value} />;
  if (!other.value) return <p class="faint">Reading the other run…</p>;
  const [left, right] = [steps(other.value), steps(model.events)];
  let first = 0;
  while (first < left.length && first < right.length && same(left[first], right[first])) first += 1;
  if (first === left.length && first === right.length) {
    return (
      <Empty title="Both runs took the same steps">
        <p>Every step has the same inputs and results.</p>
      </Empty>
    );
  }
  const rows = Math.min(Math.max(left.length, right.length) - first, 200);
  return (
    <div class="comparison">
      <p>
        The first {first} steps are the same. From there:
      </p>
      <div class="pair head">
        <a href={href(["runs", a])}>{plain(short(a))}</a>
        <a href={href(["runs", model.id])}>{plain(short(model.id))} (this run)</a>
      </div>
      {Array.from({ length: rows }, (_, at) => (
        <Pair key={at} left={left[first + at] ?? null} right={right[first + at] ?? null} />
      ))}
    </div>
  );
}

const STEPS = /^(run\.|node\.(completed|failed|skipped|retried|cancelled)|interrupt\.resolved|variable\.changed)/;

/** The events that say what a run did, without times and ids. */
function steps(events: RunEvent[]): Side[] {
  return events
    .filter((event) => STEPS.test(event.type))
    .map(sideOf)
    .filter((side) => side !== null);
}

const IGNORED = new Set(["durationMs", "runId", "owner", "interruptId", "engineVersion", "tags"]);

function comparable(value: Json): Json {
  if (Array.isArray(value)) return value.map(comparable);
  if (value === null || typeof value !== "object") return value;
  const kept: Fields = {};
  for (const [name, item] of Object.entries(value)) {
    if (!IGNORED.has(name)) kept[name] = comparable(item);
  }
  return kept;
}

function same(a: Side | undefined, b: Side | undefined): boolean {
  if (!a || !b) return false;
  if (a.type !== b.type || a.node !== b.node) return false;
  return JSON.stringify(comparable(a.payload)) === JSON.stringify(comparable(b.payload));
}

function Pair({ left, right }: { left: Side | null; right: Side | null }) {
  if (left && right && same(left, right)) return null;
  return (
    <div class="pair">
      <SideView side={left} other={right} gone />
      <SideView side={right} other={left} />
    </div>
  );
}

function SideView(props: { side: Side | null; other: Side | null; gone?: boolean }) {
  const { side, other } = props;
  if (!side) return <div class="side none">nothing</div>;
  const [mine, theirs] = [said(side), other ? said(other) : ""];
  return (
    <div class="side">
      <header>
        <span class="seq">{side.seq}</span> {plain(side.type)}{" "}
        <span class="faint">{plain(side.node)}</span>
      </header>
      <div class="said mono">
        {changes(theirs, mine).map((part, at) =>
          part.changed ? (
            <mark key={at} class={props.gone ? "gone" : "new"}>
              {plain(part.text)}
            </mark>
          ) : (
            <span key={at}>{plain(part.text)}</span>
          ),
        )}
      </div>
    </div>
  );
}

/** What a step says: a model's answer as its text, anything else as JSON. */
function said(side: Side): string {
  const payload = fields(side.payload);
  const outputs = fields(payload.outputs);
  const content = text(outputs.content) || text(outputs.stdout);
  if (content) return content.slice(0, 6000);
  return pretty(comparable(payload.outputs ?? payload.error ?? side.payload)).slice(0, 6000);
}

async function readAll(run: string): Promise<RunEvent[]> {
  const all: RunEvent[] = [];
  for (;;) {
    const page = await call("get", "/v1/runs/{runId}/events/poll", {
      path: { runId: run },
      query: { timeout: 0, lastSequence: all.at(-1)?.sequence },
    });
    all.push(...page.events);
    if (page.events.length === 0 || page.isComplete) return all;
  }
}
