// Values of a run: inputs, outputs, variables, channels, artifacts.
import { may } from "../api";
import { Value } from "../json";
import type { RunModel } from "../run";
import type { Fields, Json, RunView } from "../view";
import { Artifacts } from "./artifacts";

export function DataTab(props: { model: RunModel; view: RunView; offline: boolean }) {
  const { model, view } = props;
  const snapshot = model.snapshot.value;
  // The snapshot is read at some events only; while the run goes on, the events know more.
  const now = model.at.value === null && model.link.value !== "live";
  const variables = now
    ? ((snapshot?.variables ?? {}) as Fields)
    : (Object.fromEntries(view.variables) as Fields);
  const channels = now
    ? ((snapshot?.channels ?? {}) as Fields)
    : (Object.fromEntries(view.channels) as Fields);
  return (
    <div class="tab sections">
      <Section title="Inputs" value={view.inputs} />
      {view.outputs !== null && <Section title="Outputs" value={view.outputs} />}
      <Section title="Variables" value={variables} />
      {Object.keys(channels).length > 0 && <Section title="Channels" value={channels} />}
      {snapshot?.metadata && <Section title="Metadata" value={snapshot.metadata as Json} />}
      {!props.offline && may("artifacts:read") && <Artifacts model={model} count={view.artifacts} />}
    </div>
  );
}

function Section({ title, value }: { title: string; value: Json }) {
  return (
    <section>
      <h2>{title}</h2>
      <Value name={title.toLowerCase()} value={value} />
    </section>
  );
}
