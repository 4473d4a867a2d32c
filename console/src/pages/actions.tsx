// What can be done with a run.
import { useSignal } from "@preact/signals";
import { call, may } from "../api";
import { asJson } from "../form";
import { plain } from "../format";
import { failedAt } from "../retry";
import { go, href } from "../route";
import type { RunModel } from "../run";
import { Button, Dialog, Menu, download, note } from "../ui";
import { ForkDialog } from "./fork";

const ENDED = new Set(["completed", "failed", "cancelled"]);

type Shown = "cancel" | "fork" | "pause" | "signal" | "purge" | null;

export function Actions({ model }: { model: RunModel }) {
  const dialog = useSignal<Shown>(null);
  const snapshot = model.snapshot.value;
  const status = snapshot?.status ?? "";
  const over = ENDED.has(status);
  const path = { runId: model.id };
  const failed = failedStep(model);
  const close = () => (dialog.value = null);
  const open = (which: Shown) => () => void (dialog.value = which);
  const again = async () => {
    const body = { mode: "branch" as const, fromSeq: failed };
    const made = await call("post", "/v1/runs/{runId}:fork", { path, body });
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
        <Button onClick={open("pause")}>Pause…</Button>
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
        <Button kind="main" onClick={again} title="A new run continues before the step that failed">
          Retry from the failed step
        </Button>
      )}
      {may("runs:create") && (
        <Button onClick={open("fork")}>
          {model.at.value === null ? "Fork…" : `Fork from event ${model.at.value}…`}
        </Button>
      )}
      {!over && may("runs:cancel") && (
        <Button kind="danger" onClick={open("cancel")}>
          Cancel…
        </Button>
      )}
      <Menu label="More">
        {may("runs:create") && (
          <Button onClick={replay} title="Decides the log again without running anything">
            Replay
          </Button>
        )}
        {may("runs:create") && may("manifest:read") && (
          <a
            class="button"
            href={href(["workflows", snapshot?.workflowId ?? ""], { tab: "start", like: model.id })}
          >
            Start one like it
          </a>
        )}
        {!over && may("runs:cancel") && <Button onClick={open("signal")}>Signal…</Button>}
        <Button onClick={bundle} title="State, events and annotations in one file">
          Bundle
        </Button>
        {over && may("runs:cancel") && (
          <Button kind="danger" onClick={open("purge")}>
            Purge…
          </Button>
        )}
      </Menu>
      {dialog.value === "pause" && <PauseDialog model={model} onClose={close} />}
      {dialog.value === "cancel" && <CancelDialog model={model} onClose={close} />}
      {dialog.value === "fork" && (
        <ForkDialog model={model} from={model.at.value ?? failed} onClose={close} />
      )}
      {dialog.value === "signal" && <SignalDialog model={model} onClose={close} />}
      {dialog.value === "purge" && <PurgeDialog model={model} onClose={close} />}
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

function SignalDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const waits = (model.snapshot.value?.interrupts ?? []).map((one) => one.payload.key);
  const name = useSignal(waits[0] ?? "");
  const payload = useSignal("null");
  const wrong = useSignal("");
  const send = async () => {
    const entry = asJson(payload.value);
    if ("wrong" in entry) {
      wrong.value = entry.wrong;
      return;
    }
    await call("post", "/v1/runs/{runId}:signal", {
      path: { runId: model.id },
      body: { name: name.value.trim(), payload: entry.value ?? null },
    });
    note("done", "The run has the signal.");
    await model.refresh();
    onClose();
  };
  return (
    <Dialog title="Signal this run" onClose={onClose}>
      <p>
        The run keeps the signal until a node waits for its name.
        {waits.length > 0 && <> It waits for {waits.map(plain).join(", ")}.</>}
      </p>
      <label class="filter">
        <span>Name</span>
        <input
          type="text"
          defaultValue={name.value}
          maxLength={256}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
      </label>
      <label class="filter">
        <span>Value (JSON)</span>
        <textarea
          rows={4}
          class="mono"
          spellcheck={false}
          defaultValue={payload.value}
          onInput={(event) => (payload.value = event.currentTarget.value)}
        />
      </label>
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
      <footer>
        <Button onClick={onClose}>Close</Button>
        <Button kind="main" onClick={send} disabled={name.value.trim() === ""}>
          Send
        </Button>
      </footer>
    </Dialog>
  );
}

function PurgeDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const reason = useSignal("");
  return (
    <Dialog title="Purge this run?" onClose={onClose}>
      <p>
        Its events, artifacts and files are erased for good, and those of the runs that it started.
        Its id, the end of its hash chain and the reason remain.
      </p>
      <label class="filter">
        <span>Reason</span>
        <input
          type="text"
          maxLength={256}
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      <footer>
        <Button onClick={onClose}>Keep it</Button>
        <Button
          kind="danger"
          onClick={async () => {
            await call("delete", "/v1/runs/{runId}", {
              path: { runId: model.id },
              query: { reason: reason.value.trim() },
            });
            note("done", "The run is erased.");
            go(href(["runs"]));
          }}
        >
          Purge the run
        </Button>
      </footer>
    </Dialog>
  );
}
