// Every event of a run: searchable, linkable by sequence, in the thousands.
import { useSignal } from "@preact/signals";
import type { RunEvent } from "../api";
import { type Json, fields, text } from "../view";
import { plain } from "../format";
import { Value } from "../json";
import { VirtualList } from "../list";
import { requery, route } from "../route";
import type { RunModel } from "../run";
import { Time } from "../ui";

/** Events that say how a node got on, rather than where the run stands. */
const CHATTER = new Set(["output.chunk", "log.appended", "provider.usage", "channel.written"]);

export function EventsTab({ model }: { model: RunModel }) {
  void model.version.value;
  const { query } = route.value;
  const sought = useSignal(query.get("q") ?? "");
  const all = query.get("all") === "1";
  const at = query.get("seq");
  const seq = at === null ? null : Number(at);
  const until = model.at.value ?? Infinity;
  const needle = sought.value.trim().toLowerCase();
  const shown = model.events.filter(
    (event) =>
      event.sequence <= until &&
      (all || needle !== "" || event.sequence === seq || !CHATTER.has(event.type)) &&
      (needle === "" || haystack(event).includes(needle)),
  );
  const focus = seq === null ? undefined : shown.findIndex((event) => event.sequence === seq);
  const picked = seq === null ? null : model.events.find((event) => event.sequence === seq);
  return (
    <div class={`tab events${picked ? " with-side" : ""}`}>
      <div class="events-list">
        <div class="filters">
          <label class="filter grow">
            <span>Search</span>
            <input
              type="search"
              placeholder="type, node or content"
              value={sought.value}
              onInput={(event) => (sought.value = event.currentTarget.value)}
              onChange={(event) => requery({ q: event.currentTarget.value })}
            />
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={all}
              onChange={(event) => requery({ all: event.currentTarget.checked ? "1" : null })}
            />
            output and logs too
          </label>
          <span class="faint">
            {shown.length.toLocaleString("en")} of {model.events.length.toLocaleString("en")}
          </span>
        </div>
        <VirtualList
          count={shown.length}
          row={28}
          label="Events"
          focus={focus}
          stick={model.link.value === "live" && seq === null}
          render={(index) => {
            const event = shown[index];
            if (!event) return <span />;
            return (
              <button
                type="button"
                class={`event${event.sequence === seq ? " selected" : ""}`}
                aria-pressed={event.sequence === seq}
                onClick={() =>
                  requery({ seq: event.sequence === seq ? null : String(event.sequence) })
                }
              >
                <span class="seq">{event.sequence}</span>
                <Time at={event.timestamp} />
                <span class={`type ${tone(event.type)}`}>{plain(event.type)}</span>
                <span class="on">{plain(event.nodeId ?? "")}</span>
                <span class="gist">{plain(gist(event))}</span>
              </button>
            );
          }}
        />
      </div>
      {picked && (
        <aside class="inspector" aria-label={`Event ${picked.sequence}`}>
          <header>
            <h2>
              {picked.sequence} {plain(picked.type)}
            </h2>
            <button type="button" aria-label="Close" onClick={() => requery({ seq: null })}>
              ×
            </button>
          </header>
          <p class="faint">
            <Time at={picked.timestamp} /> · {plain(picked.eventId)}
          </p>
          <p>
            <button type="button" class="more" onClick={() => (model.at.value = picked.sequence)}>
              Show the run as it was then
            </button>
          </p>
          <Value name={`event-${picked.sequence}`} value={picked.payload as Json} />
        </aside>
      )}
    </div>
  );
}

const texts = new WeakMap<RunEvent, string>();

function haystack(event: RunEvent): string {
  let found = texts.get(event);
  if (found === undefined) {
    const payload = JSON.stringify(event.payload).slice(0, 20_000);
    found = `${event.sequence} ${event.type} ${event.nodeId ?? ""} ${payload}`.toLowerCase();
    texts.set(event, found);
  }
  return found;
}

function tone(type: string): string {
  if (/failed|dead_lettered|exhausted|refusal/.test(type)) return "s-failed";
  if (/completed|granted|resolved/.test(type)) return "s-completed";
  if (/retried|suspended|requested|paused/.test(type)) return "s-waiting";
  return "";
}

/** The part of an event that matters most, in a few words. */
function gist(event: RunEvent): string {
  const payload = fields(event.payload as Json);
  const error = fields(payload.error ?? payload.lastError);
  if (text(error.code)) return `${text(error.code)}: ${text(error.message)}`.slice(0, 160);
  const said =
    text(payload.chunk) ||
    text(payload.message) ||
    text(payload.title) ||
    text(payload.name) ||
    text(payload.toolName) ||
    text(payload.reason) ||
    text(payload.model);
  if (said) return said.slice(0, 160).replace(/\s+/g, " ");
  const outputs = payload.outputs ?? payload.inputs;
  return outputs ? JSON.stringify(outputs).slice(0, 160) : "";
}
