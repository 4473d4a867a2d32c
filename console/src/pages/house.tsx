// The rest of the house: queues and webhooks.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Schemas, call } from "../api";
import { type Json, fields, text } from "../view";
import { plain, short } from "../format";
import { Tree } from "../json";
import { go, href } from "../route";
import { Button, Empty, Problems, Sign, Time, note } from "../ui";

type QueueRow = Schemas["QueueList"]["queues"][number];

export function QueuesPage({ name }: { name: string | undefined }) {
  const list = useSignal<QueueRow[] | null>(null);
  const error = useSignal<unknown>(null);
  useRepeated(async () => {
    try {
      list.value = (await call("get", "/v1/coordinator")).queues;
      error.value = null;
    } catch (failed) {
      error.value = failed;
    }
  }, []);
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Queues</h1>
        <span class="spacer" />
        <label class="filter">
          <span>Queue</span>
          <input
            type="search"
            placeholder="name"
            onKeyDown={(event) => {
              const queue = event.currentTarget.value.trim();
              if (event.key === "Enter" && queue) go(href(["queues", queue]));
            }}
          />
        </label>
      </header>
      {error.value !== null && <Problems error={error.value} />}
      {list.value !== null && list.value.length > 0 && (
        <div class="scroll">
          <table class="rows queues">
            <thead>
              <tr>
                <th>Queue</th>
                <th class="end">Waiting</th>
                <th class="end">At work</th>
                <th>Changed</th>
              </tr>
            </thead>
            <tbody>
              {list.value.map((row) => (
                <tr key={row.queue} class={row.queue === name ? "chosen" : undefined}>
                  <td>
                    <a
                      href={href(["queues", row.queue])}
                      aria-current={row.queue === name ? "page" : undefined}
                    >
                      {plain(row.queue)}
                    </a>
                  </td>
                  <td class="end num">{row.pending.toLocaleString("en")}</td>
                  <td class="end num">{row.notified.toLocaleString("en")}</td>
                  <td>
                    <Time at={row.changed_at} relative />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {name ? (
        <Queue key={name} name={name} />
      ) : (
        list.value?.length === 0 && (
          <Empty title="No queue has had work">
            <p>A worker for a queue is started with</p>
            <pre class="command">
              runwright worker --queue NAME --server {location.origin} -- COMMAND
            </pre>
          </Empty>
        )
      )}
    </main>
  );
}

interface Standing {
  snapshot: Schemas["QueueSnapshot"];
  workers: Schemas["QueueWorkers"];
}

function Queue({ name }: { name: string }) {
  const standing = useSignal<Standing | null>(null);
  const error = useSignal<unknown>(null);
  useRepeated(async () => {
    const path = { queue: name };
    try {
      const [snapshot, workers] = await Promise.all([
        call("get", "/v1/coordinator/{queue}/snapshot", { path }),
        call("get", "/v1/coordinator/{queue}/workers", { path }),
      ]);
      standing.value = { snapshot, workers };
      error.value = null;
    } catch (failed) {
      error.value = failed;
    }
  }, [name]);
  if (error.value !== null) return <Problems error={error.value} />;
  const found = standing.value;
  if (!found) return <p class="faint pad">Reading the queue…</p>;
  const { snapshot, workers } = found;
  return (
    <div class="sections queue">
      <section>
        <h2>
          {plain(name)}: {snapshot.readiness.ready ? "ready" : "not ready"}
          {snapshot.readiness.reasons.length > 0 && (
            <span class="faint">: {snapshot.readiness.reasons.map(plain).join(", ")}</span>
          )}
        </h2>
        <div class="two">
          <div>
            <h3>Authority</h3>
            <Tree value={snapshot.authority as Json} depth={0} />
          </div>
          <div>
            <h3>Backlog</h3>
            <Tree value={snapshot.backlog as Json} depth={0} />
          </div>
        </div>
      </section>
      <section>
        <h2>Workers</h2>
        {workers.workers.length === 0 ? (
          <p class="faint">No worker has asked for tasks.</p>
        ) : (
          <table class="rows">
            <thead>
              <tr>
                <th>Worker</th>
                <th>State</th>
                <th>Last seen</th>
                <th class="end">Tasks</th>
              </tr>
            </thead>
            <tbody>
              {workers.workers.map((one) => (
                <tr key={one.worker}>
                  <td>{plain(one.worker)}</td>
                  <td>
                    <Sign status={one.stalled ? "failed" : "running"} />{" "}
                    {one.stalled ? "stalled" : "at work"}
                  </td>
                  <td>
                    <Time at={one.last_seen} relative />
                  </td>
                  <td class="end num">{one.assignments}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {workers.assignments.length > 0 && (
        <section>
          <h2>Tasks at work</h2>
          <table class="rows">
            <tbody>
              {workers.assignments.map((one) => (
                <tr key={one.assignment_id}>
                  <td class="mono">{plain(one.assignment_id)}</td>
                  <td>{plain(one.worker)}</td>
                  <td>
                    since <Time at={one.assigned_at} relative />
                  </td>
                  <td>
                    heartbeat <Time at={one.last_heartbeat} relative />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </div>
  );
}

export function WebhooksPage({ id }: { id: string | undefined }) {
  const list = useSignal<Schemas["Webhook"][] | null>(null);
  const report = useSignal<Json | null>(null);
  const error = useSignal<unknown>(null);
  const read = () =>
    call("get", "/v1/webhooks")
      .then((page) => (list.value = page.webhooks))
      .catch((failed: unknown) => (error.value = failed));
  useEffect(() => void read(), []);
  useEffect(() => {
    report.value = null;
    error.value = null;
  }, [id]);
  useRepeated(
    async (isOver) => {
      if (!id) return;
      try {
        const found = await call("get", "/v1/webhooks/{webhookId}", { path: { webhookId: id } });
        // Another webhook may have been chosen meanwhile.
        if (!isOver()) report.value = found as unknown as Json;
      } catch (failed) {
        if (!isOver()) error.value = failed;
      }
    },
    [id],
  );
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Webhooks</h1>
      </header>
      {error.value !== null && <Problems error={error.value} />}
      {list.value?.length === 0 && (
        <Empty title="No webhook is registered">
          <p>A webhook sends events of runs to an address:</p>
          <pre class="command">runwright webhooks create https://example.org/hook --events run.failed</pre>
        </Empty>
      )}
      {list.value && list.value.length > 0 && (
        <div class="scroll">
          <table class="rows">
            <thead>
              <tr>
                <th>Address</th>
                <th>Events</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.value.map((hook) => (
                <tr key={hook.webhookId}>
                  <td>
                    <a href={href(["webhooks", hook.webhookId])}>{plain(hook.url)}</a>
                  </td>
                  <td>{hook.events.map(plain).join(", ")}</td>
                  <td class="end">
                    <Button
                      kind="danger"
                      onClick={async () => {
                        if (!confirm(`Remove the webhook to ${hook.url}?`)) return;
                        await call("delete", "/v1/webhooks/{webhookId}", {
                          path: { webhookId: hook.webhookId },
                        });
                        note("done", "Removed");
                        await read();
                      }}
                    >
                      Remove
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {report.value !== null && <Deliveries of={fields(report.value).deliveries ?? null} />}
    </main>
  );
}

/** The state of a webhook's deliveries. */
function Deliveries({ of }: { of: Json }) {
  const { waiting, deadLetters, status, ...rest } = fields(of);
  const lists: [string, Json | undefined, string][] = [
    ["Waiting for another attempt", waiting, "No event waits."],
    ["Given up", deadLetters, "No event was given up."],
  ];
  return (
    <div class="sections">
      <section>
        <h2>Deliveries: {plain(text(status))}</h2>
        <Tree value={rest} depth={0} />
      </section>
      {lists.map(([title, items, none]) => (
        <section key={title}>
          <h2>{title}</h2>
          {Array.isArray(items) && items.length > 0 ? (
            <div class="scroll">
              <table class="rows">
                <thead>
                  <tr>
                    <th>Event</th>
                    <th>Run</th>
                    <th class="end">Attempts</th>
                    <th>When</th>
                    <th>Why</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map(fields).map((one, at) => (
                    <tr key={at}>
                      <td class="mono">{plain(text(one.type))}</td>
                      <td>
                        <a
                          class="mono"
                          href={href(["runs", text(one.runId)], {
                            tab: "events",
                            seq: String(one.sequence ?? ""),
                          })}
                        >
                          {plain(short(text(one.runId)))} · {String(one.sequence ?? "")}
                        </a>
                      </td>
                      <td class="end num">{String(one.attempts ?? "")}</td>
                      <td>
                        <Time at={text(one.at) || text(one.retryAt) || null} relative />
                      </td>
                      <td>{plain(text(one.lastError))}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="faint">{none}</p>
          )}
        </section>
      ))}
    </div>
  );
}

/** Repeats a reading while the page is shown. `isOver` says that its answer is no longer wanted. */
function useRepeated(
  read: (isOver: () => boolean) => Promise<void>,
  inputs: readonly unknown[],
): void {
  useEffect(() => {
    let timer = 0;
    let over = false;
    const ask = async () => {
      if (document.visibilityState === "visible") await read(() => over);
      if (!over) timer = window.setTimeout(() => void ask(), 1500);
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, inputs);
}
