// Bars of attempts, waits and calls over time.
import { useSignal } from "@preact/signals";
import type { Attempt, Call, RunView, Wait } from "./view";
import { duration, now, plain, time } from "./format";
import { family } from "./ui";

interface Bar {
  from: number;
  to: number | null;
  style: string;
  label: string;
}

interface Line {
  node: string;
  name: string;
  bars: Bar[];
  calls: Bar[];
}

/** Rows drawn at first; a run of thousands of nodes shows the rest on request. */
const SHOWN = 60;

export function Timeline(props: {
  view: RunView;
  names: Map<string, string>;
  selected: string | null;
  onSelect: (id: string) => void;
}) {
  const { view } = props;
  const shown = useSignal(SHOWN);
  const from = view.startedAt;
  if (from === null) return null;
  const end = view.endedAt ?? (view.settled ? (view.lastAt ?? from) : now.value);
  const lines = linesOf(view, props.names);
  const scale = scaleOf(view, from, end);
  const left = (at: number) => `${scale.place(at) * 100}%`;
  const width = (bar: Bar) => {
    const to = Math.min(bar.to ?? end, end);
    return `max(3px, ${(scale.place(to) - scale.place(bar.from)) * 100}%)`;
  };
  const draw = (bar: Bar, at: number, more = "") => (
    <span
      key={at}
      class={`bar ${bar.style}${more}`}
      style={{ left: left(bar.from), width: width(bar) }}
      title={plain(`${bar.label}, ${duration((bar.to ?? end) - bar.from)}`)}
    />
  );
  return (
    <div class="timeline" role="region" aria-label="Timeline">
      <div class="axis" aria-hidden="true">
        <span />
        <div>
          {[0, 0.25, 0.5, 0.75, 1].map((part) => (
            <span key={part} style={{ left: `${part * 100}%` }}>
              {part === 0 ? time(from) : `+${duration(scale.time(part) - from)}`}
            </span>
          ))}
        </div>
      </div>
      {lines.slice(0, shown.value).map((line) => (
        <button
          key={line.node}
          type="button"
          class={`lane${props.selected === line.node ? " selected" : ""}`}
          aria-pressed={props.selected === line.node}
          onClick={() => props.onSelect(line.node)}
        >
          <span class="lane-name">{plain(line.name)}</span>
          <span class="lane-bars">
            {scale.breaks.map((gap) => (
              <span
                key={gap.from}
                class="gap"
                style={{ left: left(gap.from), width: width({ ...gap, style: "", label: "" }) }}
                title={`${duration(gap.to - gap.from)} in which nothing ran`}
              />
            ))}
            {thin(line.bars, scale.place).map((bar, at) => draw(bar, at))}
            {thin(line.calls, scale.place).map((bar, at) => draw(bar, at, " call"))}
          </span>
        </button>
      ))}
      {lines.length > shown.value && (
        <button type="button" class="more" onClick={() => (shown.value += 500)}>
          … {lines.length - shown.value} more nodes
        </button>
      )}
    </div>
  );
}

/** Leaves out bars that look the same as one before them. */
function thin(bars: Bar[], place: (time: number) => number): Bar[] {
  if (bars.length < 300) return bars;
  const seen = new Set<string>();
  return bars.filter((bar) => {
    const pixel = (at: number) => Math.round(place(at) * 1500);
    const to = bar.to === null ? "" : pixel(bar.to);
    const key = `${bar.style} ${pixel(bar.from)} ${to}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

interface Stretch {
  from: number;
  to: number;
}

/** The most of the width that a stretch takes in which nothing runs. */
const GAP = 0.12;

/** Times to places from 0 to 1. Long stretches in which nothing runs are drawn shorter. */
function scaleOf(view: RunView, from: number, end: number) {
  const busy: Stretch[] = [];
  const ran = view.attempts
    .map((one) => ({ from: one.from, to: one.suspendedAt ?? one.to ?? end }))
    .sort((a, b) => a.from - b.from);
  for (const one of ran) {
    const last = busy.at(-1);
    if (last && one.from <= last.to) last.to = Math.max(last.to, one.to);
    else busy.push({ ...one });
  }
  const active = busy.reduce((sum, one) => sum + one.to - one.from, 0);
  const most = Math.max(active, (end - from) / 50, 1) * GAP;
  const breaks: Stretch[] = [];
  const points: { at: number; place: number }[] = [{ at: from, place: 0 }];
  let [at, place] = [from, 0];
  const move = (to: number, long: number) => {
    if (to <= at) return;
    place += long;
    at = to;
    points.push({ at, place });
  };
  for (const one of [...busy, { from: end, to: end }]) {
    const gap = one.from - at;
    if (gap > most) breaks.push({ from: at, to: one.from });
    move(one.from, Math.min(gap, most));
    move(one.to, one.to - one.from);
  }
  const total = Math.max(place, 1e-9);
  const between = (key: "at" | "place", other: "at" | "place", value: number): number => {
    const next = points.findIndex((point) => point[key] >= value);
    const [a, b] = [points[Math.max(0, next - 1)], points[next < 0 ? points.length - 1 : next]];
    if (!a || !b || b[key] === a[key]) return b?.[other] ?? 0;
    return a[other] + ((value - a[key]) / (b[key] - a[key])) * (b[other] - a[other]);
  };
  return {
    breaks,
    place: (time: number) => between("at", "place", Math.min(Math.max(time, from), end)) / total,
    time: (part: number) => between("place", "at", part * total),
  };
}

function linesOf(view: RunView, names: Map<string, string>): Line[] {
  const lines = new Map<string, Line>();
  const line = (node: string): Line => {
    let found = lines.get(node);
    if (!found) {
      found = { node, name: names.get(node) ?? node, bars: [], calls: [] };
      lines.set(node, found);
    }
    return found;
  };
  for (const attempt of view.attempts) line(attempt.node).bars.push(ofAttempt(attempt));
  for (const wait of view.waits) line(wait.node).bars.push(ofWait(wait));
  for (const call of view.calls) line(call.node).calls.push(ofCall(call));
  return [...lines.values()];
}

function ofAttempt(attempt: Attempt): Bar {
  const nth = attempt.attempt > 0 ? `attempt ${attempt.attempt + 1} ` : "";
  const visit = attempt.visit > 0 ? `round ${attempt.visit + 1} ` : "";
  return {
    from: attempt.from,
    to: attempt.suspendedAt ?? attempt.to,
    style: `s-${family(attempt.outcome)}`,
    label: `${visit}${nth}${attempt.outcome}`,
  };
}

function ofWait(wait: Wait): Bar {
  return { from: wait.from, to: wait.to, style: `wait ${wait.kind}`, label: wait.label };
}

function ofCall(call: Call): Bar {
  const status = call.status === "ok" ? "completed" : call.status;
  return {
    from: call.from,
    to: call.to,
    style: `s-${family(status)}`,
    label: `${call.kind} ${call.name}`,
  };
}
