// What can be done with a run.
import { useSignal } from "@preact/signals";
import { call, may } from "../api";
import type { Fields, Json } from "../view";
import { asJson } from "../form";
import { failedAt } from "../retry";
import { go, href } from "../route";
import type { RunModel } from "../run";
import { Button, Dialog, download, note } from "../ui";

const ENDED = new Set(["completed", "failed", "cancelled"]);

export function Actions({ model }: { model: RunModel }) {
  const dialog = useSignal<"cancel" | "fork" | "pause" | null>(null);
  const snapshot = model.snapshot.value;
  const status = snapshot?.status ?? "";
  const over = ENDED.has(status);
  const path = { runId: model.id };
  const failed = failedStep(model);
  const close = () => (dialog.value = null);
  const fork = async (fromSeq: number, overlay: Fields) => {
    const made = await call("post", "/v1/runs/{runId}:fork", {
      path,
      body: { mode: "branch", fromSeq, runOptionsOverlay: overlay },
    });
    go(href(["runs", made.runId]));
  };
  const replay = async () => {
    const made = await call("post", "/v1/runs/{runId}:fork", { path, body: { mode: "replay" } });
    const at = made.divergedAtSeq;
    note(
      at === undefined ? "done" : "error",
      at === undefined
        ? "The replay made the same decisions."
        : `The replay decided differently at event ${at}.`,
    );
    go(href(["runs", made.runId]));
  };
  const bundle = async () => {
    const made = await call("get", "/v1/runs/{runId}/debug-bundle", { path });
    download(`${model.id}.json`, new Blob([JSON.stringify(made)], { type: "application/json" }));
  };
  return (
    <div class="actions">
      {!over && status !== "paused" && may("runs:cancel") && (
        <Button onClick={() => void (dialog.value = "pause")}>Pause…</Button>
      )}
      {status === "paused" && may("runs:cancel") && (
        <Button
          kind="main"
          onClick={async () => {
            await call("post", "/v1/runs/{runId}:resume", { path, body: {} });
            await model.refresh();
          }}
        >
          Resume
        </Button>
      )}
      {failed !== null && may("runs:create") && (
        <Button kind="main" onClick={() => fork(failed, {})} title="A new run continues before the step that failed">
          Retry from the failed step
        </Button>
      )}
      {may("runs:create") && (
        <>
          <Button onClick={() => void (dialog.value = "fork")}>
            {model.at.value === null ? "Fork…" : `Fork from event ${model.at.value}…`}
          </Button>
          <Button onClick={replay} title="Decides the log again without running anything">
            Replay
          </Button>
        </>
      )}
      <Button onClick={bundle} title="State, events and annotations in one file">
        Bundle
      </Button>
      {!over && may("runs:cancel") && (
        <Button kind="danger" onClick={() => void (dialog.value = "cancel")}>
          Cancel…
        </Button>
      )}
      {dialog.value === "pause" && <PauseDialog model={model} onClose={close} />}
      {dialog.value === "cancel" && <CancelDialog model={model} onClose={close} />}
      {dialog.value === "fork" && <ForkDialog model={model} onClose={close} fork={fork} />}
    </div>
  );
}

/** The event before which a failed run is continued. */
function failedStep(model: RunModel): number | null {
  void model.version.value;
  const { status, failedNodeId } = model.snapshot.value ?? {};
  if (status !== "failed" || !failedNodeId) return null;
  return failedAt(model.events, failedNodeId);
}

function PauseDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const pause = async (drainPolicy: "drain-current-node" | "immediate") => {
    await call("post", "/v1/runs/{runId}:pause", {
      path: { runId: model.id },
      body: { drainPolicy, reason: "paused in the console" },
    });
    await model.refresh();
    onClose();
  };
  return (
    <Dialog title="Pause this run" onClose={onClose}>
      <p>
        Nothing new starts until it is resumed. Steps in flight may end first, or stop now and begin
        again later.
      </p>
      <footer>
        <Button onClick={() => pause("immediate")}>Stop them now</Button>
        <Button kind="main" onClick={() => pause("drain-current-node")}>
          Let them end
        </Button>
      </footer>
    </Dialog>
  );
}

function CancelDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const reason = useSignal("");
  return (
    <Dialog title="Cancel this run?" onClose={onClose}>
      <p>Steps in flight are stopped, and so are the runs that it started.</p>
      <label class="filter">
        <span>Reason</span>
        <input type="text" onInput={(event) => (reason.value = event.currentTarget.value)} />
      </label>
      <footer>
        <Button onClick={onClose}>Keep it running</Button>
        <Button
          kind="danger"
          onClick={async () => {
            await call("post", "/v1/runs/{runId}/cancel", {
              path: { runId: model.id },
              body: reason.value.trim() ? { reason: reason.value.trim() } : {},
            });
            await model.refresh();
            onClose();
          }}
        >
          Cancel the run
        </Button>
      </footer>
    </Dialog>
  );
}

function ForkDialog(props: {
  model: RunModel;
  onClose: () => void;
  fork: (fromSeq: number, overlay: Fields) => Promise<void>;
}) {
  const { model } = props;
  const last = model.events.at(-1)?.sequence ?? 0;
  const from = useSignal(String(model.at.value ?? failedStep(model) ?? last));
  const configurable = useSignal(
    JSON.stringify(model.snapshot.value?.configurable ?? {}, null, 2),
  );
  const wrong = useSignal("");
  const submit = async () => {
    const entry = asJson(configurable.value);
    if ("wrong" in entry) {
      wrong.value = entry.wrong;
      return;
    }
    const overlay: Fields = {};
    if (entry.value && Object.keys(entry.value as object).length > 0) {
      overlay.configurable = entry.value as Json;
    }
    await props.fork(Number(from.value), overlay);
    props.onClose();
  };
  return (
    <Dialog title="Fork this run" onClose={props.onClose}>
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
      <label class="filter">
        <span>Settings of the new run (configurable)</span>
        <textarea
          rows={6}
          class="mono"
          value={configurable.value}
          onInput={(event) => (configurable.value = event.currentTarget.value)}
        />
      </label>
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
      <footer>
        <Button onClick={props.onClose}>Close</Button>
        <Button kind="main" onClick={submit}>
          Fork
        </Button>
      </footer>
    </Dialog>
  );
}
