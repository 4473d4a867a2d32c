// The files that nodes produced: images, JSON, diffs and texts are shown.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Schemas, bytes, call } from "../api";
import { plain, size } from "../format";
import { Value } from "../json";
import type { RunModel } from "../run";
import { Button, Problems, Text, download } from "../ui";
import type { Json } from "../view";

type Artifact = Schemas["Artifact"];

export function Artifacts({ model, count }: { model: RunModel; count: number }) {
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
const MOST_BYTES = 2 * 1024 * 1024;
const MOST_CHARS = 200_000;

type Shown =
  | { form: "image"; url: string }
  | { form: "json"; value: Json }
  | { form: "diff" | "text"; text: string };

function ArtifactView({ run, artifact }: { run: string; artifact: Artifact }) {
  const shown = useSignal<Shown | null>(null);
  useEffect(
    () => () => {
      if (shown.value?.form === "image") URL.revokeObjectURL(shown.value.url);
    },
    [],
  );
  const id = artifact.artifactId;
  const media = (artifact.mediaType ?? "").split(";")[0] ?? "";
  const read = () =>
    bytes("/v1/runs/{runId}/artifacts/{artifactId}", { path: { runId: run, artifactId: id } });
  return (
    <div class="artifact">
      <span class="mono">{plain(id)}</span>{" "}
      <span class="faint">
        {plain(artifact.nodeId ?? "")} · {plain(media)} · {size(artifact.size ?? 0)}
      </span>{" "}
      {isShowable(media) && shown.value === null && (
        <Button onClick={async () => void (shown.value = await show(await read(), media))}>
          Show
        </Button>
      )}
      <Button onClick={async () => download(id, await read())}>Download</Button>
      {shown.value && <ShownView shown={shown.value} name={id} />}
    </div>
  );
}

function isShowable(media: string): boolean {
  return IMAGES.has(media) || media.startsWith("text/") || /json|xml|yaml|javascript/.test(media);
}

async function show(blob: Blob, media: string): Promise<Shown> {
  if (IMAGES.has(media)) {
    return { form: "image", url: URL.createObjectURL(blob.slice(0, blob.size, media)) };
  }
  if (/json$/.test(media) && blob.size <= MOST_BYTES) {
    try {
      return { form: "json", value: JSON.parse(await blob.text()) as Json };
    } catch {
      // A file that only claims to be JSON is shown as text.
    }
  }
  const text = (await blob.slice(0, MOST_BYTES).text()).slice(0, MOST_CHARS);
  const isDiff = /^(diff --git |--- .*\n\+\+\+ )/.test(text);
  return { form: isDiff ? "diff" : "text", text };
}

function ShownView({ shown, name }: { shown: Shown; name: string }) {
  switch (shown.form) {
    case "image":
      return <img src={shown.url} alt={`Artifact ${name}`} />;
    case "json":
      return <Value value={shown.value} name={name} />;
    case "diff":
      return <Diff text={shown.text} />;
    case "text":
      return (
        <pre class="text" tabIndex={0}>
          <Text value={shown.text} />
        </pre>
      );
  }
}

/** A unified diff with its added and removed lines marked. */
function Diff({ text }: { text: string }) {
  return (
    <pre class="text diff" tabIndex={0}>
      {text.split("\n").map((line, at) => (
        <span key={at} class={lineClass(line)}>
          {plain(line)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

function lineClass(line: string): string {
  if (/^(\+\+\+|---|diff |index )/.test(line)) return "file";
  if (line.startsWith("@@")) return "range";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "";
}
