// The list of runs: filters in the address, live, with actions on several.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type RunRow, call, may } from "../api";
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
/** How often the list asks for changes while it is visible. */
const EVERY = 1000;
const VIEWS = "runwright.views";

interface View {
  name: string;
  query: string;
}

export function RunsPage() {
  const { query } = route.value;
  const statuses = query.getAll("status");
  const filter = {
    status: statuses,
    workflowId: query.get("workflow") ?? "",
    tag: query.get("tag") ?? "",
  };
  const key = JSON.stringify(filter);
  const rows = useSignal<RunRow[] | null>(null);
  const next = useSignal<string | null>(null);
  const error = useSignal<unknown>(null);
  const chosen = useSignal<Set<string>>(new Set());

  useEffect(() => {
    const stop = new AbortController();
    rows.value = null;
    chosen.value = new Set();
    let timer = 0;
    let shown = "";
    const ask = async () => {
      try {
        if (document.visibilityState === "visible" || rows.value === null) {
          const page = await list(filter, null, stop.signal);
          error.value = null;
          const text = JSON.stringify(page.runs);
          if (text !== shown) {
            shown = text;
            // Rows of later pages stay where they are.
            const fresh = new Set(page.runs.map((row) => row.runId));
            const rest = (rows.value ?? []).slice(PAGE).filter((row) => !fresh.has(row.runId));
            if (rest.length === 0) next.value = page.nextCursor ?? null;
            rows.value = [...page.runs, ...rest];
          }
        }
      } catch (failed) {
        if (!stop.signal.aborted) error.value = failed;
      }
      if (!stop.signal.aborted) timer = window.setTimeout(() => void ask(), EVERY);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key]);

  const more = async () => {
    const page = await list(filter, next.value);
    next.value = page.nextCursor ?? null;
    rows.value = [...(rows.value ?? []), ...page.runs];
  };
  const toggle = (status: string) =>
    requery({
      status: statuses.includes(status)
        ? statuses.filter((one) => one !== status)
        : [...statuses, status],
    });
  const filtered = statuses.length > 0 || filter.workflowId !== "" || filter.tag !== "";
  const live = (rows.value ?? []).filter((row) => chosen.value.has(row.runId));

  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Runs</h1>
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
            </button>
          ))}
        </div>
        <Field name="workflow" label="Workflow" value={filter.workflowId} />
        <Field name="tag" label="Tag" value={filter.tag} />
        <FindRun />
      </div>
      {error.value !== null && <Problems error={error.value} />}
      {live.length > 0 && <Selected rows={live} onDone={() => (chosen.value = new Set())} />}
      {rows.value === null ? (
        error.value === null && <p class="faint pad">Reading the list…</p>
      ) : rows.value.length === 0 ? (
        <NoRuns filtered={filtered} />
      ) : (
        <>
          <Table
            rows={rows.value}
            chosen={chosen.value}
            onChoose={(id) => {
              const set = new Set(chosen.value);
              if (!set.delete(id)) set.add(id);
              chosen.value = set;
            }}
          />
          {next.value && (
            <p class="pad">
              <Button onClick={more}>Show older runs</Button>
            </p>
          )}
        </>
      )}
    </main>
  );
}

interface Filter {
  status: string[];
  workflowId: string;
  tag: string;
}

function list(filter: Filter, cursor: string | null, stop?: AbortSignal) {
  const query = { ...filter, limit: PAGE, cursor: cursor ?? undefined };
  return call("get", "/v1/runs", stop ? { query, signal: stop } : { query });
}

function Field({ name, label, value }: { name: string; label: string; value: string }) {
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="search"
        value={value}
        onChange={(event) => requery({ [name]: event.currentTarget.value.trim() })}
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
  onChoose: (id: string) => void;
}) {
  const acts = may("runs:cancel") || may("runs:create");
  return (
    <div class="scroll">
      <table class="rows runs">
        <thead>
          <tr>
            {acts && (
              <th class="narrow">
                <span class="hidden">Select</span>
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
                    onChange={() => props.onChoose(row.runId)}
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
    const runIds = open.slice(0, 100).map((row) => row.runId);
    const { results } = await call("post", "/v1/runs:bulk-cancel", {
      body: { runIds, reason: "cancelled in the console" },
    });
    const refused = results.filter((one) => !one.ok).length;
    if (refused > 0) report(new Error(`${count(refused, "run")} could not be cancelled.`));
    else note("done", `${count(results.length, "run")} cancelled`);
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
    const found: unknown = JSON.parse(localStorage.getItem(VIEWS) ?? "[]");
    return Array.isArray(found) ? (found as View[]) : [];
  } catch {
    return [];
  }
}

/** Filters that this browser keeps under a name. */
function Views({ filtered }: { filtered: boolean }) {
  const views = useSignal(stored());
  const keep = (list: View[]) => {
    views.value = list;
    localStorage.setItem(VIEWS, JSON.stringify(list));
  };
  const current = location.hash.split("?")[1] ?? "";
  const known = views.value.find((view) => view.query === current);
  const save = () => {
    const name = prompt("Name of this view")?.trim();
    if (name) keep([...views.value.filter((view) => view.name !== name), { name, query: current }]);
  };
  return (
    <div class="views">
      {views.value.length > 0 && (
        <select
          aria-label="Saved views"
          value={known?.query ?? ""}
          onChange={(event) => go(`#/runs?${event.currentTarget.value}`)}
        >
          <option value="">Saved views</option>
          {views.value.map((view) => (
            <option key={view.name} value={view.query}>
              {plain(view.name)}
            </option>
          ))}
        </select>
      )}
      {filtered && !known && <Button onClick={save}>Save view</Button>}
      {known && <Button onClick={() => keep(views.value.filter((one) => one !== known))}>Forget view</Button>}
    </div>
  );
}
