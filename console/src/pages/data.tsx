// Values of a run: inputs, outputs, variables, channels, artifacts.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Schemas, bytes, call, may } from "../api";
import type { Fields, Json, RunView } from "../view";
import { plain, size } from "../format";
import { Value } from "../json";
import type { RunModel } from "../run";
import { Button, Problems, Text, download } from "../ui";

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

type Artifact = Schemas["Artifact"];

function Artifacts({ model, count }: { model: RunModel; count: number }) {
  const list = useSignal<Artifact[] | null>(null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    call("get", "/v1/runs/{runId}/artifacts", { path: { runId: model.id } })
      .then((page) => (list.value = page.artifacts))
      .catch((failed: unknown) => (error.value = failed));
  }, [model.id, count]);
  if (error.value !== null) return <Problems error={error.value} />;
  if (!list.value || list.value.length === 0) return null;
  return (
    <section>
      <h2>Artifacts</h2>
      {list.value.map((one) => (
        <ArtifactView key={one.artifactId} run={model.id} artifact={one} />
      ))}
    </section>
  );
}

/** Only these are shown as images: a browser runs no script in them. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const MOST = 2 * 1024 * 1024;

function ArtifactView({ run, artifact }: { run: string; artifact: Artifact }) {
  const image = useSignal<string | null>(null);
  const shown = useSignal<string | null>(null);
  const media = (artifact.mediaType ?? "").split(";")[0] ?? "";
  const isImage = IMAGES.has(media);
  const isText = media.startsWith("text/") || /json|xml|yaml|javascript/.test(media);
  const path = { runId: run, artifactId: artifact.artifactId };
  const read = () => bytes("/v1/runs/{runId}/artifacts/{artifactId}", { path });
  const show = async () => {
    const blob = await read();
    if (isImage) image.value = URL.createObjectURL(blob.slice(0, blob.size, media));
    else shown.value = (await blob.slice(0, MOST).text()).slice(0, 200_000);
  };
  return (
    <div class="artifact">
      <span class="mono">{plain(artifact.artifactId)}</span>{" "}
      <span class="faint">
        {plain(artifact.nodeId ?? "")} · {plain(media)} · {size(artifact.size ?? 0)}
      </span>{" "}
      {(isImage || isText) && <Button onClick={show}>Show</Button>}
      <Button onClick={async () => download(artifact.artifactId, await read())}>Download</Button>
      {image.value && <img src={image.value} alt={`Artifact ${artifact.artifactId}`} />}
      {shown.value !== null && (
        <pre class="text" tabIndex={0}>
          <Text value={shown.value} />
        </pre>
      )}
    </div>
  );
}
