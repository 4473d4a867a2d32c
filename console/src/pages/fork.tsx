// Forking a run: from an event, with changed steps, another definition or other settings.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, may } from "../api";
import { asJson } from "../form";
import { plain } from "../format";
import { go, href } from "../route";
import type { RunModel } from "../run";
import { Button, Dialog, Problems, note } from "../ui";
import { type Fields, type Json, fields, text } from "../view";

type Part = "step" | "definition" | "settings";

export function ForkDialog(props: {
  model: RunModel;
  /** The event before which the fork begins; null for the end of the log. */
  from: number | null;
  onClose: () => void;
}) {
  const { model } = props;
  const last = model.events.at(-1)?.sequence ?? 0;
  const from = useSignal(String(props.from ?? last));
  const edits = may("workflows:write") && may("manifest:read");
  const part = useSignal<Part>(edits ? "step" : "settings");
  const document = useSignal<Fields | null>(null);
  const failed = useSignal<unknown>(null);
  const edited = useSignal<Fields | null>(null);
  const settings = useSignal(JSON.stringify(model.snapshot.value?.configurable ?? {}, null, 2));
  const wrong = useSignal("");
  useEffect(() => {
    if (!edits) return;
    call("get", "/v1/runs/{runId}/workflow", { path: { runId: model.id } })
      .then((found) => (document.value = found as unknown as Fields))
      .catch((error: unknown) => {
        failed.value = error;
        part.value = "settings";
      });
  }, [model.id]);
  const submit = async () => {
    const entry = asJson(settings.value);
    if ("wrong" in entry) {
      wrong.value = `Settings: ${entry.wrong}`;
      return;
    }
    if (wrong.value) return;
    if (!/^\d+$/.test(from.value.trim())) {
      note("error", "Say from which event the fork continues.");
      return;
    }
    const configurable = fields(entry.value);
    const overlay = Object.keys(configurable).length > 0 ? { configurable } : {};
    const made = await call("post", "/v1/runs/{runId}:fork", {
      path: { runId: model.id },
      body: {
        mode: "branch",
        fromSeq: Number(from.value),
        runOptionsOverlay: overlay,
        ...(edited.value ? { definition: edited.value } : {}),
      },
    });
    props.onClose();
    go(href(["runs", made.runId]));
  };
  const change = (next: Fields | null, why: string) => {
    wrong.value = why;
    if (!why) edited.value = next;
  };
  const current = edited.value ?? document.value;
  const parts: [Part, string][] = [
    ["step", "A step"],
    ["definition", "Definition"],
    ["settings", "Settings"],
  ];
  return (
    <Dialog title="Fork this run" onClose={props.onClose} wide>
      <p>
        A new run copies the log up to an event and continues from there. Later steps happen again,
        outside too.
      </p>
      <label class="filter">
        <span>From event</span>
        <input
          type="number"
          min={0}
          max={last}
          value={from.value}
          onInput={(event) => (from.value = event.currentTarget.value)}
        />
      </label>
      {edits && (
        <div class="segments" role="group" aria-label="What to change">
          {parts.map(([id, name]) => (
            <button
              key={id}
              type="button"
              aria-pressed={part.value === id}
              onClick={() => (part.value = id)}
            >
              {name}
            </button>
          ))}
        </div>
      )}
      {failed.value !== null && <Problems error={failed.value} />}
      {part.value === "step" &&
        (current ? (
          <StepEditor
            document={current}
            first={model.snapshot.value?.failedNodeId ?? nodeAt(model, Number(from.value))}
            onChange={change}
          />
        ) : (
          <p class="faint">Reading the definition…</p>
        ))}
      {part.value === "definition" && current && (
        <DefinitionEditor document={current} onChange={change} />
      )}
      {part.value === "settings" && (
        <label class="filter">
          <span>Settings of the new run (configurable)</span>
          <textarea
            rows={6}
            class="mono"
            spellcheck={false}
            value={settings.value}
            onInput={(event) => (settings.value = event.currentTarget.value)}
          />
        </label>
      )}
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
      <footer>
        {edited.value && <span class="faint">The registered workflow stays as it is.</span>}
        <Button onClick={props.onClose}>Close</Button>
        <Button kind="main" onClick={submit}>
          {edited.value ? "Fork with the changes" : "Fork"}
        </Button>
      </footer>
    </Dialog>
  );
}

/** The node that the first event from a place on is about. */
function nodeAt(model: RunModel, seq: number): string {
  const found = model.events.find((event) => event.sequence >= seq && event.nodeId);
  return found?.nodeId ?? "";
}

function nodesOf(document: Fields): Fields[] {
  return Array.isArray(document.nodes) ? document.nodes.map(fields) : [];
}

/** The configuration of one node: texts as they are, anything else as JSON. */
function StepEditor(props: {
  document: Fields;
  first: string | undefined;
  onChange: (document: Fields | null, wrong: string) => void;
}) {
  const nodes = nodesOf(props.document);
  const chosen = useSignal(props.first ?? "");
  const node = nodes.find((one) => text(one.id) === chosen.value) ?? nodes[0];
  if (!node) return <p class="faint">The definition has no node.</p>;
  const id = text(node.id);
  const set = (name: string, value: Json) => {
    const config = { ...fields(node.config), [name]: value };
    const changed = nodes.map((one) => (one === node ? { ...one, config } : one));
    props.onChange({ ...props.document, nodes: changed }, "");
  };
  const entries = Object.entries(fields(node.config));
  return (
    <div class="form step">
      <label class="filter">
        <span>Step</span>
        <select value={id} onChange={(event) => (chosen.value = event.currentTarget.value)}>
          {nodes.map((one) => (
            <option key={text(one.id)} value={text(one.id)}>
              {plain(text(one.name) || text(one.id))}
            </option>
          ))}
        </select>
      </label>
      {entries.length === 0 && <p class="faint">This step has no configuration.</p>}
      {entries.map(([name, value]) => (
        <label key={`${id} ${name}`} class="filter">
          <span>{plain(name)}</span>
          {typeof value === "string" ? (
            <textarea
              rows={rowsOf(value)}
              spellcheck={false}
              defaultValue={value}
              onInput={(event) => set(name, event.currentTarget.value)}
            />
          ) : (
            <textarea
              rows={rowsOf(JSON.stringify(value, null, 2))}
              class="mono"
              spellcheck={false}
              defaultValue={JSON.stringify(value, null, 2)}
              onInput={(event) => {
                const entry = asJson(event.currentTarget.value);
                if ("wrong" in entry) props.onChange(null, `${name}: ${entry.wrong}`);
                else set(name, entry.value ?? null);
              }}
            />
          )}
        </label>
      ))}
    </div>
  );
}

function rowsOf(value: string): number {
  const lines = value.split("\n").reduce((sum, line) => sum + 1 + Math.floor(line.length / 72), 0);
  return Math.min(Math.max(lines, 1), 14);
}

function DefinitionEditor(props: {
  document: Fields;
  onChange: (document: Fields | null, wrong: string) => void;
}) {
  const start = useSignal(JSON.stringify(props.document, null, 2));
  return (
    <label class="filter">
      <span>Definition of the new run</span>
      <textarea
        rows={16}
        class="mono"
        spellcheck={false}
        defaultValue={start.value}
        onInput={(event) => {
          const entry = asJson(event.currentTarget.value);
          if ("wrong" in entry) props.onChange(null, `Definition: ${entry.wrong}`);
          else props.onChange(fields(entry.value), "");
        }}
      />
    </label>
  );
}
