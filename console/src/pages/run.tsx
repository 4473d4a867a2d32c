// One run: why it stands where it stands, and what to do about it.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { RunView } from "../view";
import { ago, count, duration, plain, short } from "../format";
import { GraphView } from "../graph";
import { href, requery, route } from "../route";
import { type Bundle, RunModel } from "../run";
import { Timeline } from "../timeline";
import { Problems, Status, Tabs, Text, Time } from "../ui";
import { Actions } from "./actions";
import { CallsTab } from "./calls";
import { DataTab } from "./data";
import { EventsTab } from "./events";
import { Inspector } from "./inspector";
import { OutputTab } from "./output";
import { Questions } from "./questions";
import { RelatedTab } from "./related";

export function RunPage({ id, bundle }: { id: string; bundle?: Bundle }) {
  const model = useMemo(() => new RunModel(id, bundle), [id]);
  useEffect(() => () => model.close(), [model]);
  const { query } = route.value;
  const tab = query.get("tab") ?? "overview";
  const view = model.view.value;
  const snapshot = model.snapshot.value;
  if (model.error.value !== null) {
    return (
      <main class="page" id="main">
        <header class="page-head">
          <h1>Run</h1>
        </header>
        <Problems error={model.error.value} />
        <p class="pad">
          <a href={href(["runs"])}>All runs</a>
        </p>
      </main>
    );
  }
  if (!snapshot) {
    return (
      <main class="page" id="main">
        <p class="faint pad">Reading run {plain(short(id))}…</p>
      </main>
    );
  }
  const tabs = [
    { id: "overview", name: "Overview" },
    { id: "events", name: "Events", badge: model.events.length },
    { id: "calls", name: "Calls", badge: view.calls.length },
    { id: "output", name: "Output" },
    { id: "data", name: "Data" },
    { id: "related", name: "Related" },
  ];
  return (
    <main class="page" id="main">
      <Head model={model} view={view} offline={bundle !== undefined} />
      {bundle?.note && (
        <p class="problem">This file does not have all of the run: {plain(bundle.note)}</p>
      )}
      {bundle === undefined && <Questions model={model} />}
      <Slider model={model} />
      <Tabs
        label="Views of the run"
        tabs={tabs}
        current={tab}
        href={(one) => href(["runs", id], { tab: one === "overview" ? null : one })}
      />
      {tab === "overview" && <Overview model={model} view={view} />}
      {tab === "events" && <EventsTab model={model} />}
      {tab === "calls" && <CallsTab model={model} view={view} />}
      {tab === "output" && <OutputTab view={view} />}
      {tab === "data" && <DataTab model={model} view={view} offline={bundle !== undefined} />}
      {tab === "related" && <RelatedTab model={model} offline={bundle !== undefined} />}
    </main>
  );
}

const LINKS: Record<string, string> = {
  loading: "reading",
  live: "live",
  lost: "connection lost, trying again",
  ended: "",
  file: "from a file, read only",
};

function Head(props: { model: RunModel; view: RunView; offline: boolean }) {
  const { model, view } = props;
  const snapshot = model.snapshot.value;
  const at = model.at.value;
  const status = at === null ? (snapshot?.status ?? view.status) : view.status;
  const graph = model.graph.value;
  const cost = snapshot?.metrics?.openwopCost;
  const usd = view.usd ?? cost?.usd ?? null;
  const link = LINKS[model.link.value] ?? "";
  return (
    <header class="run-head">
      <div class="run-title">
        <h1>
          <Text value={graph?.name ?? snapshot?.workflowId ?? ""} />
        </h1>
        <Status status={status} />
        {link && <span class={`link ${model.link.value}`}>{link}</span>}
        <span class="spacer" />
        {!props.offline && <Actions model={model} />}
      </div>
      <p class="sentence">{sentence(model, view)}</p>
      <dl class="facts">
        <div>
          <dt>Run</dt>
          <dd class="mono" title={model.id}>
            {plain(model.id)}
          </dd>
        </div>
        <div>
          <dt>Started</dt>
          <dd>
            <Time at={view.startedAt} />
          </dd>
        </div>
        <div>
          <dt>{view.settled ? "Took" : "For"}</dt>
          <dd>{view.startedAt === null ? "–" : elapsed(view)}</dd>
        </div>
        <div>
          <dt>Definition</dt>
          <dd>
            {plain(snapshot?.workflowId ?? "")} {plain(graph?.version ?? "")}
          </dd>
        </div>
        {view.tokens.input + view.tokens.output > 0 && (
          <div>
            <dt>Tokens</dt>
            <dd>
              {view.tokens.input.toLocaleString("en")} in, {view.tokens.output.toLocaleString("en")}{" "}
              out
            </dd>
          </div>
        )}
        {usd !== null && (
          <div>
            <dt>Cost</dt>
            <dd>${usd.toFixed(4)}</dd>
          </div>
        )}
        {snapshot?.parentRunId && (
          <div>
            <dt>Parent</dt>
            <dd>
              <a href={href(["runs", snapshot.parentRunId])}>{short(snapshot.parentRunId)}</a>
            </dd>
          </div>
        )}
        {snapshot?.forkedFrom && (
          <div>
            <dt>{snapshot.forkedFrom.mode === "replay" ? "Replay of" : "Branch of"}</dt>
            <dd>
              <a href={href(["runs", snapshot.forkedFrom.runId])}>
                {short(snapshot.forkedFrom.runId)}
              </a>
            </dd>
          </div>
        )}
        {(snapshot?.tags ?? []).length > 0 && (
          <div>
            <dt>Tags</dt>
            <dd>{(snapshot?.tags ?? []).map(plain).join(", ")}</dd>
          </div>
        )}
      </dl>
    </header>
  );
}

function elapsed(view: RunView): string {
  if (view.startedAt === null) return "";
  if (view.endedAt !== null) return duration(view.endedAt - view.startedAt);
  return ago(view.startedAt).replace(" ago", "");
}

/** Why the run stands where it stands. */
function sentence(model: RunModel, view: RunView) {
  const names = new Map((model.graph.value?.nodes ?? []).map((node) => [node.id, node.name]));
  const name = (id: string) => <strong>{plain(names.get(id) ?? id)}</strong>;
  const snapshot = model.snapshot.value;
  if (view.status === "failed" && view.error) {
    return (
      <>
        Failed{view.failedNode && <> at {name(view.failedNode)}</>}:{" "}
        <code>{plain(view.error.code)}</code> – <Text value={view.error.message} />
      </>
    );
  }
  if (view.status === "completed") {
    return <>Completed all of {count(view.nodes.size, "node")} that it reached.</>;
  }
  if (view.status === "cancelled") {
    return <>Cancelled{view.reason && <>: {plain(view.reason)}</>}.</>;
  }
  if (view.status === "draining") {
    return <>Pauses when the steps in flight have ended.</>;
  }
  if (view.status === "paused") {
    return <>Paused{view.reason && <>: {plain(view.reason)}</>}. It continues when it is resumed.</>;
  }
  const asked = model.at.value === null ? snapshot?.interrupts?.[0] : undefined;
  if (asked) {
    return (
      <>
        Waits for an answer at {name(asked.nodeId)} since <Time at={asked.requestedAt ?? null} />
        {asked.expiresAt && (
          <>
            ; the time is over <Time at={asked.expiresAt} relative />
          </>
        )}
        .
      </>
    );
  }
  const nodes = [...view.nodes.values()];
  const retrying = nodes.find((node) => node.status === "retrying");
  if (retrying) {
    const wait = view.waits.findLast((one) => one.node === retrying.id);
    return (
      <>
        {name(retrying.id)} failed ({plain(retrying.error?.code ?? "")}) and is tried again
        {wait?.to && <> {ago(wait.to)}</>}.
      </>
    );
  }
  const running = nodes.filter((node) => node.status === "running");
  const first = running[0];
  if (first) {
    const state = snapshot?.nodeStates?.[first.id];
    return (
      <>
        {name(first.id)} runs{first.from !== null && <> since {ago(first.from).replace(" ago", "")}</>}
        {running.length > 1 && <>, and {count(running.length - 1, "other node")}</>}
        {state?.dueAt && model.at.value === null && (
          <>
            ; it is due <Time at={state.dueAt} relative />
          </>
        )}
        .
      </>
    );
  }
  return <>Waits for its turn.</>;
}

/** Moves the page to an earlier event. */
function Slider({ model }: { model: RunModel }) {
  void model.version.value;
  const last = model.events.at(-1)?.sequence ?? 0;
  const at = model.at.value;
  const end = model.isOver() ? "the end" : "now";
  if (last < 1) return null;
  const event = at === null ? null : model.events.find((one) => one.sequence >= at);
  const set = (to: number) => (model.at.value = to >= last ? null : Math.max(0, to));
  return (
    <div class={`slider${at === null ? "" : " past"}`}>
      <label>
        <span class="hidden">Show the run as it was after event</span>
        <input
          type="range"
          min={0}
          max={last}
          value={at ?? last}
          aria-valuetext={at === null ? "now" : `event ${at}`}
          onInput={(event) => set(Number(event.currentTarget.value))}
        />
      </label>
      {at === null ? (
        <span class="faint">{end}</span>
      ) : (
        <span>
          after event {at} <span class="mono">{plain(event?.type ?? "")}</span>{" "}
          <Time at={event?.timestamp ?? null} />{" "}
          <button type="button" class="more" onClick={() => (model.at.value = null)}>
            Back to {end}
          </button>
        </span>
      )}
    </div>
  );
}

function Overview({ model, view }: { model: RunModel; view: RunView }) {
  const graph = model.graph.value;
  const names = useComputed(
    () => new Map((model.graph.value?.nodes ?? []).map((node) => [node.id, node.name])),
  );
  const selected = route.value.query.get("node");
  const closed = useSignal(false);
  const failed = closed.value ? null : view.failedNode;
  const shown = selected ?? failed;
  const select = (id: string) => requery({ node: id === selected ? null : id });
  return (
    <div class={`overview${shown ? " with-side" : ""}`}>
      <div class={`overview-main${graph && graph.height > graph.width ? " tall" : ""}`}>
        {graph && (
          <GraphView graph={graph} nodes={view.nodes} selected={shown} onSelect={select} />
        )}
        <Timeline view={view} names={names.value} selected={shown} onSelect={select} />
      </div>
      {shown && (
        <Inspector
          model={model}
          view={view}
          node={shown}
          onClose={() => {
            closed.value = true;
            requery({ node: null });
          }}
        />
      )}
    </div>
  );
}
