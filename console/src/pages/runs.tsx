// The list of runs: filters in the address, live, with actions on several.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type RunRow, type Schemas, call, may, session } from "../api";
import { following, throttled, useChanges } from "../changes";
import { count, duration, plain, short } from "../format";
import { retry } from "../retry";
import { go, href, requery, route } from "../route";
import { Button, Empty, Problems, Sign, Status, Time, note, report } from "../ui";

const STATUSES = [
  "running",
  "waiting-approval",
  "waiting-input",
  "waiting-external",
  "paused",
  "pending",
  "completed",
  "failed",
  "cancelled",
];
const PAGE = 100;
/** The most rows that are kept live; more are read once. */
const LIVE_ROWS = 500;
/** The least time between two readings of the list, and of the counts. */
const EVERY = 150;
const COUNTS_EVERY = 1000;
/** Where this browser keeps the saved views of a tenant. */
const views = () => `runwright.views ${session.value?.tenant ?? ""}`;

interface View {
  name: string;
  query: string;
}

/** The periods of the address, in hours. */
const PERIODS: Record<string, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

interface Filter {
  workflowId: string;
  tag: string;
  text: string;
  principal: string;
  attribute: string[];
  since: string;
  from: string;
  to: string;
}

function filterOf(query: URLSearchParams): Filter {
  const of = (name: string) => query.get(name) ?? "";
  return {
    workflowId: of("workflow"),
    tag: of("tag"),
    text: of("text"),
    principal: of("by"),
    attribute: query.getAll("attr").filter((one) => /^[^=]+=/.test(one)),
    since: of("since") in PERIODS ? of("since") : "",
    from: of("from"),
    to: of("to"),
  };
}

/** The conditions of a filter as the server reads them. */
function conditions({ since, from, to, ...rest }: Filter) {
  const iso = (local: string) => {
    const ms = Date.parse(local);
    return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
  };
  const hours = PERIODS[since];
  const ago = hours && new Date(Date.now() - hours * 3_600_000).toISOString();
  return { ...rest, createdAfter: ago || iso(from), createdBefore: iso(to) };
}

export function RunsPage() {
  const { query } = route.value;
  const statuses = query.getAll("status");
  const filter = filterOf(query);
  const key = JSON.stringify([statuses, filter]);
  const list = useList(key, statuses, filter);
  const counts = useCounts(key, filter);
  const { rows, next, error, chosen } = list;
  const toggle = (status: string) =>
    requery({
      status: statuses.includes(status)
        ? statuses.filter((one) => one !== status)
        : [...statuses, status],
    });
  const filtered = statuses.length > 0 || Object.values(filter).some((one) => one.length > 0);
  const live = (rows.value ?? []).filter((row) => chosen.value.has(row.runId));

  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Runs</h1>
        {counts.value && (
          <span class="faint">
            {counts.value.complete ? "" : "more than "}
            {count(counts.value.total, "run")}
          </span>
        )}
        <span class={`link ${following.value}`}>
          {following.value === "live" ? "live" : "connection lost, trying again"}
        </span>
        <span class="spacer" />
        <Views filtered={filtered} />
        {may("runs:create") && (
          <a class="button main" href={href(["workflows"])}>
            Start a run
          </a>
        )}
      </header>
      <div class="filters" role="search" aria-label="Filters">
        <div class="chips" role="group" aria-label="Status">
          {STATUSES.map((status) => (
            <button
              key={status}
              type="button"
              class="chip"
              aria-pressed={statuses.includes(status)}
              onClick={() => toggle(status)}
            >
              <Sign status={status} />
              {status.replace("-", " ")}
              {counts.value?.byStatus[status] ? (
                <span class="count">{counts.value.byStatus[status].toLocaleString("en")}</span>
              ) : null}
            </button>
          ))}
        </div>
        <Filters filter={filter} />
      </div>
      {error.value !== null && <Problems error={error.value} />}
      {live.length > 0 && <Selected rows={live} onDone={() => (chosen.value = new Set())} />}
      {rows.value === null ? (
        error.value === null && <p class="faint pad">Reading the list…</p>
      ) : rows.value.length === 0 ? (
        next.value ? (
          <p class="pad">
            None of the runs searched so far has all of these.{" "}
            <Button onClick={list.more}>Search older runs</Button>
          </p>
        ) : (
          <NoRuns filtered={filtered} />
        )
      ) : (
        <>
          <Table
            rows={rows.value}
            chosen={chosen.value}
            onChoose={(ids, on) => {
              const set = new Set(chosen.value);
              for (const id of ids) {
                if (on) set.add(id);
                else set.delete(id);
              }
              chosen.value = set;
            }}
          />
          {next.value && (
            <p class="pad">
              <Button onClick={list.more}>Show older runs</Button>
            </p>
          )}
        </>
      )}
    </main>
  );
}

/** The rows that match, kept live. */
function useList(key: string, statuses: string[], filter: Filter) {
  const rows = useSignal<RunRow[] | null>(null);
  const next = useSignal<string | null>(null);
  const error = useSignal<unknown>(null);
  const chosen = useSignal<Set<string>>(new Set());
  const again = useRef<() => void>(() => undefined);
  const read = (limit: number, cursor?: string, stop?: AbortSignal) => {
    const query = { ...conditions(filter), status: statuses, limit, cursor };
    return call("get", "/v1/runs", stop ? { query, signal: stop } : { query });
  };
  useEffect(() => {
    const stop = new AbortController();
    rows.value = null;
    chosen.value = new Set();
    const reading = throttled(EVERY, async () => {
      const known = rows.value ?? [];
      const limit = Math.min(Math.max(PAGE, known.length), LIVE_ROWS);
      try {
        const page = await read(limit, undefined, stop.signal);
        error.value = null;
        // Rows that are older than these stay where they are.
        const last = page.runs.at(-1);
        const rest = last && page.nextCursor ? known.filter((row) => isOlder(row, last)) : [];
        if (rest.length === 0) next.value = page.nextCursor ?? null;
        const shown = [...page.runs, ...rest];
        if (JSON.stringify(shown) !== JSON.stringify(rows.value)) rows.value = shown;
      } catch (failed) {
        if (!stop.signal.aborted) error.value = failed;
      }
    });
    again.current = reading.ask;
    reading.ask();
    return () => {
      stop.abort();
      reading.end();
    };
  }, [key]);
  useChanges(() => again.current());
  const latest = useRef(key);
  latest.current = key;
  const more = async () => {
    const page = await read(PAGE, next.value ?? undefined);
    // The filter may have changed meanwhile.
    if (latest.current !== key) return;
    next.value = page.nextCursor ?? null;
    rows.value = [...(rows.value ?? []), ...page.runs];
  };
  return { rows, next, error, chosen, more };
}

/** Whether a row comes after another one in a list, newest first. */
function isOlder(row: RunRow, than: RunRow): boolean {
  if (row.createdAt !== than.createdAt) return row.createdAt < than.createdAt;
  return row.runId < than.runId;
}

/** How many runs match, by status; the chosen statuses do not matter. */
function useCounts(key: string, filter: Filter) {
  const counts = useSignal<Schemas["RunCounts"] | null>(null);
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    const stop = new AbortController();
    const reading = throttled(COUNTS_EVERY, async () => {
      const query = conditions(filter);
      try {
        counts.value = await call("get", "/v1/runs:count", { query, signal: stop.signal });
      } catch {
        // The list reports why.
        if (!stop.signal.aborted) counts.value = null;
      }
    });
    again.current = reading.ask;
    reading.ask();
    return () => {
      stop.abort();
      reading.end();
    };
  }, [key]);
  useChanges(() => again.current());
  return counts;
}

function Filters({ filter }: { filter: Filter }) {
  const rare = filter.principal !== "" || filter.attribute.length > 0;
  const ranged = filter.from !== "" || filter.to !== "";
  return (
    <>
      <Field name="text" label="Text" value={filter.text} hint="id, workflow, tag, error…" />
      <Field name="workflow" label="Workflow" value={filter.workflowId} />
      <Field name="tag" label="Tag" value={filter.tag} />
      <label class="filter">
        <span>Created</span>
        <select
          value={ranged ? "range" : filter.since}
          onChange={(event) => {
            const since = event.currentTarget.value;
            const day = new Date(Date.now() - 86_400_000);
            const from = since === "range" ? local(day) : null;
            requery({ since: since === "range" ? null : since, from, to: null });
          }}
        >
          <option value="">at any time</option>
          <option value="1h">in the last hour</option>
          <option value="24h">in the last 24 hours</option>
          <option value="7d">in the last 7 days</option>
          <option value="30d">in the last 30 days</option>
          <option value="range">from … to …</option>
        </select>
      </label>
      {ranged && (
        <>
          <Moment name="from" label="From" value={filter.from} />
          <Moment name="to" label="To" value={filter.to} />
        </>
      )}
      <details class="rare" open={rare}>
        <summary>More filters</summary>
        <div class="filters">
          <Field name="by" label="Created by" value={filter.principal} />
          <Field name="attr" label="Metadata" value={filter.attribute[0] ?? ""} hint="name=value" />
          <FindRun />
        </div>
      </details>
    </>
  );
}

/** A time as a control writes it, in the viewer's zone. */
function local(at: Date): string {
  const shifted = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}

function Moment({ name, label, value }: { name: string; label: string; value: string }) {
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="datetime-local"
        value={value}
        onChange={(event) => requery({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function Field(props: { name: string; label: string; value: string; hint?: string }) {
  // The text is kept while it is typed: the page is drawn again at each change of a run.
  const typed = useSignal(props.value);
  useEffect(() => void (typed.value = props.value), [props.value]);
  return (
    <label class="filter">
      <span>{props.label}</span>
      <input
        type="search"
        value={typed.value}
        placeholder={props.hint}
        maxLength={256}
        onInput={(event) => (typed.value = event.currentTarget.value)}
        onChange={(event) => requery({ [props.name]: event.currentTarget.value.trim() })}
      />
    </label>
  );
}

/** Opens a run by its id. */
function FindRun() {
  return (
    <label class="filter">
      <span>Run id</span>
      <input
        type="search"
        placeholder="run-…"
        onKeyDown={(event) => {
          const id = event.currentTarget.value.trim();
          if (event.key === "Enter" && id) go(href(["runs", id]));
        }}
      />
    </label>
  );
}

function Table(props: {
  rows: RunRow[];
  chosen: Set<string>;
  onChoose: (ids: string[], on: boolean) => void;
}) {
  const acts = may("runs:cancel") || may("runs:create");
  const able = props.rows.filter((row) => canCancel(row) || canRetry(row)).map((row) => row.runId);
  const all = able.length > 0 && able.every((id) => props.chosen.has(id));
  return (
    <div class="scroll">
      <table class="rows runs">
        <thead>
          <tr>
            {acts && (
              <th class="narrow">
                <input
                  type="checkbox"
                  aria-label="Select every run of the list that can be cancelled or retried"
                  checked={all}
                  disabled={able.length === 0}
                  onChange={() => props.onChoose(able, !all)}
                />
              </th>
            )}
            <th>Status</th>
            <th>Workflow</th>
            <th>Run</th>
            <th>Started</th>
            <th class="end">Took</th>
            <th class="end wide">Events</th>
            <th class="wide">Tags</th>
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={row.runId} class={props.chosen.has(row.runId) ? "chosen" : undefined}>
              {acts && (
                <td class="narrow">
                  <input
                    type="checkbox"
                    aria-label={`Select run ${short(row.runId)}`}
                    checked={props.chosen.has(row.runId)}
                    disabled={!canCancel(row) && !canRetry(row)}
                    onChange={() => props.onChoose([row.runId], !props.chosen.has(row.runId))}
                  />
                </td>
              )}
              <td>
                <Status status={row.status} />
                {row.error?.code && <span class="code">{plain(row.error.code)}</span>}
              </td>
              <td>{plain(row.workflowId)}</td>
              <td>
                <a class="mono" href={href(["runs", row.runId])} title={row.runId}>
                  {plain(short(row.runId))}
                </a>
                {row.parentRunId && <span class="faint"> child</span>}
                {row.workbench && <span class="faint"> browser</span>}
              </td>
              <td>
                <Time at={row.createdAt} relative />
              </td>
              <td class="end num">{took(row)}</td>
              <td class="end num wide">{row.events?.toLocaleString("en")}</td>
              <td class="wide">
                {(row.tags ?? []).map((tag) => (
                  <button key={tag} type="button" class="tag" onClick={() => requery({ tag })}>
                    {plain(tag)}
                  </button>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function took(row: RunRow): string {
  if (row.settled !== true) return "";
  return duration(Date.parse(row.updatedAt) - Date.parse(row.createdAt));
}

function canCancel(row: RunRow): boolean {
  return row.settled !== true && may("runs:cancel");
}

function canRetry(row: RunRow): boolean {
  return row.status === "failed" && row.workbench === undefined && may("runs:create");
}

function Selected({ rows, onDone }: { rows: RunRow[]; onDone: () => void }) {
  const open = rows.filter(canCancel);
  const failed = rows.filter(canRetry);
  const cancel = async () => {
    let [cancelled, refused] = [0, 0];
    for (let from = 0; from < open.length; from += 100) {
      const runIds = open.slice(from, from + 100).map((row) => row.runId);
      const { results } = await call("post", "/v1/runs:bulk-cancel", {
        body: { runIds, reason: "cancelled in the console" },
      });
      cancelled += results.filter((one) => one.ok).length;
      refused += results.filter((one) => !one.ok).length;
    }
    if (refused > 0) report(new Error(`${count(refused, "run")} could not be cancelled.`));
    if (cancelled > 0) note("done", `${count(cancelled, "run")} cancelled`);
    onDone();
  };
  const again = async () => {
    let made = 0;
    for (const row of failed) {
      try {
        await retry(row.runId);
        made += 1;
      } catch (error) {
        report(error);
      }
    }
    if (made > 0) note("done", `${count(made, "run")} continued from the failed step`);
    onDone();
  };
  return (
    <div class="selected" role="status">
      {count(rows.length, "run")} selected
      {open.length > 0 && (
        <Button kind="danger" onClick={cancel}>
          Cancel {count(open.length, "run")}
        </Button>
      )}
      {failed.length > 0 && (
        <Button kind="main" onClick={again}>
          Retry {count(failed.length, "failed run")}
        </Button>
      )}
      <Button onClick={onDone}>Clear</Button>
    </div>
  );
}

function NoRuns({ filtered }: { filtered: boolean }) {
  if (filtered) {
    return (
      <Empty title="No run has all of these">
        <p>
          <a href={href(["runs"])}>Show every run</a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No runs yet">
      <p>
        Start one under <a href={href(["workflows"])}>Workflows</a>, or from a terminal:
      </p>
      <pre class="command">runwright run WORKFLOW --server {location.origin}</pre>
    </Empty>
  );
}

function stored(): View[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(views()) ?? "[]");
    return Array.isArray(found) ? (found as View[]) : [];
  } catch {
    return [];
  }
}

/** Filters that this browser keeps under a name. */
function Views({ filtered }: { filtered: boolean }) {
  const kept = useSignal(stored());
  const keep = (list: View[]) => {
    kept.value = list;
    localStorage.setItem(views(), JSON.stringify(list));
  };
  const current = location.hash.split("?")[1] ?? "";
  const known = kept.value.find((view) => view.query === current);
  const save = () => {
    const name = prompt("Name of this view")?.trim();
    if (name) keep([...kept.value.filter((view) => view.name !== name), { name, query: current }]);
  };
  return (
    <div class="views">
      {kept.value.length > 0 && (
        <select
          aria-label="Saved views"
          value={known?.query ?? ""}
          onChange={(event) => go(`#/runs?${event.currentTarget.value}`)}
        >
          <option value="">Saved views</option>
          {kept.value.map((view) => (
            <option key={view.name} value={view.query}>
              {plain(view.name)}
            </option>
          ))}
        </select>
      )}
      {filtered && !known && <Button onClick={save}>Save view</Button>}
      {known && <Button onClick={() => keep(kept.value.filter((one) => one !== known))}>Forget view</Button>}
    </div>
  );
}
