// Everything about one node of a run.
import { useSignal } from "@preact/signals";
import type { Attempt, Json, RunView } from "../view";
import { duration, plain } from "../format";
import { Value } from "../json";
import { href } from "../route";
import type { RunModel } from "../run";
import { Status, Text, Time } from "../ui";
import { Lines } from "./output";

export function Inspector(props: {
  model: RunModel;
  view: RunView;
  node: string;
  onClose: () => void;
}) {
  const { model, view, node } = props;
  const drawn = model.graph.value?.nodes.find((one) => one.id === node);
  const state = view.nodes.get(node);
  const attempts = view.attempts.filter((one) => one.node === node);
  const picked = useSignal<number | null>(null);
  const at = picked.value === null ? attempts.length - 1 : Math.min(picked.value, attempts.length - 1);
  const attempt = attempts[at];
  return (
    <aside class="inspector" aria-label={`Node ${node}`}>
      <header>
        <h2>
          <Text value={drawn?.name ?? node} />
        </h2>
        <button type="button" aria-label="Close" onClick={props.onClose}>
          ×
        </button>
      </header>
      <p>
        <Status status={state?.status ?? "pending"} />{" "}
        <span class="faint mono">
          {plain(node)} · {plain(drawn?.typeId ?? attempt?.typeId ?? "")}
        </span>
      </p>
      {state?.child && (
        <p>
          Child run <a href={href(["runs", state.child])}>{plain(state.child)}</a>
        </p>
      )}
      {attempts.length > 1 && (
        <label class="filter">
          <span>Attempt</span>
          <select
            value={at}
            onChange={(event) => (picked.value = Number(event.currentTarget.value))}
          >
            {attempts.slice(-500).map((one, index) => (
              <option key={one.firstSeq} value={index + Math.max(0, attempts.length - 500)}>
                {title(one)}
              </option>
            ))}
          </select>
        </label>
      )}
      {attempt ? (
        <AttemptView model={model} view={view} attempt={attempt} />
      ) : (
        <p class="faint">It has not started.</p>
      )}
    </aside>
  );
}

function title(attempt: Attempt): string {
  const round = attempt.visit > 0 ? `round ${attempt.visit + 1}, ` : "";
  return `${round}attempt ${attempt.attempt + 1}: ${attempt.outcome}`;
}

function AttemptView(props: { model: RunModel; view: RunView; attempt: Attempt }) {
  const { view, attempt } = props;
  const isOwn = (one: { node: string; visit: number; attempt: number }) =>
    one.node === attempt.node && one.visit === attempt.visit && one.attempt === attempt.attempt;
  const output = view.output.filter(isOwn);
  const said = view.calls.filter((one) => isOwn(one) && one.kind === "model").at(-1)?.text ?? "";
  return (
    <>
      <p class="faint">
        <Time at={attempt.from} />
        {attempt.to !== null && <> · took {duration(attempt.to - attempt.from)}</>} ·{" "}
        <a href={href(["runs", props.model.id], { tab: "events", seq: String(attempt.firstSeq) })}>
          events {attempt.firstSeq} to {attempt.lastSeq}
        </a>
      </p>
      {attempt.error && (
        <div class="problem">
          <code>{plain(attempt.error.code)}</code> <Text value={attempt.error.message} />
          {attempt.error.details !== undefined && (
            <Value name="error details" value={attempt.error.details} />
          )}
        </div>
      )}
      {said && (
        <section>
          <h3>Model</h3>
          <p class="said">
            <Text value={said.slice(0, 8000)} />
          </p>
        </section>
      )}
      {output.length > 0 && (
        <section>
          <h3>Output</h3>
          <Lines pieces={output} />
        </section>
      )}
      <Part title="Inputs" value={attempt.inputs} />
      {attempt.outputs !== null && <Part title="Outputs" value={attempt.outputs} />}
    </>
  );
}

function Part({ title, value }: { title: string; value: Json }) {
  return (
    <section>
      <h3>{title}</h3>
      <Value name={title.toLowerCase()} value={value} />
    </section>
  );
}
