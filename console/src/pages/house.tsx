// The rest of the house: queues, webhooks, the audit trail, the server itself.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Schemas, call, may, session } from "../api";
import { type Json, fields, text } from "../view";
import { plain } from "../format";
import { Tree, Value } from "../json";
import { go, href } from "../route";
import { Button, Empty, Problems, Sign, Time, note } from "../ui";

const QUEUES = "runwright.queues";

function known(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(QUEUES) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function QueuesPage({ name }: { name: string | undefined }) {
  const names = useSignal(known());
  const open = (queue: string) => go(href(["queues", queue]));
  useEffect(() => {
    if (!name || names.value.includes(name)) return;
    names.value = [name, ...names.value].slice(0, 20);
    localStorage.setItem(QUEUES, JSON.stringify(names.value));
  }, [name]);
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
              if (event.key === "Enter" && queue) open(queue);
            }}
          />
        </label>
      </header>
      {names.value.length > 0 && (
        <div class="chips" role="group" aria-label="Queues seen in this browser">
          {names.value.map((one) => (
            <a
              key={one}
              class="chip"
              aria-current={one === name ? "page" : undefined}
              href={href(["queues", one])}
            >
              {plain(one)}
            </a>
          ))}
        </div>
      )}
      {name ? (
        <Queue key={name} name={name} />
      ) : (
        <Empty title="Look at a queue">
          <p>Type its name above. A worker for it is started with</p>
          <pre class="command">runwright worker --queue NAME --server {location.origin} -- COMMAND</pre>
        </Empty>
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
  useEffect(() => {
    let timer = 0;
    let stopped = false;
    const path = { queue: name };
    const ask = async () => {
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
      if (!stopped) timer = window.setTimeout(() => void ask(), 1500);
    };
    void ask();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [name]);
  if (error.value !== null) return <Problems error={error.value} />;
  const found = standing.value;
  if (!found) return <p class="faint pad">Reading the queue…</p>;
  const { snapshot, workers } = found;
  return (
    <div class="sections">
      <section>
        <h2>
          {snapshot.readiness.ready ? "Ready" : "Not ready"}
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
    if (!id) return;
    call("get", "/v1/webhooks/{webhookId}", { path: { webhookId: id } })
      .then((found) => (report.value = found as unknown as Json))
      .catch((failed: unknown) => (error.value = failed));
  }, [id]);
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
      {report.value !== null && (
        <section class="sections">
          <h2>Deliveries</h2>
          <Value name="deliveries" value={fields(report.value).deliveries ?? report.value} />
        </section>
      )}
    </main>
  );
}

export function ServerPage() {
  const ready = useSignal("…");
  const about = useSignal<Json | null>(null);
  const audit = useSignal<Json | null>(null);
  const who = session.value;
  useEffect(() => {
    call("get", "/readyz")
      .then((found) => (ready.value = found.status))
      .catch((failed: unknown) => (ready.value = failed instanceof Error ? failed.message : "not ready"));
    call("get", "/.well-known/openwop")
      .then((found) => (about.value = found as unknown as Json))
      .catch(() => undefined);
  }, []);
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Server</h1>
        <Sign status={ready.value === "ready" ? "completed" : "failed"} />
        <span>{plain(ready.value)}</span>
      </header>
      <div class="sections">
        <section>
          <h2>You</h2>
          <dl class="facts">
            <div>
              <dt>Tenant</dt>
              <dd>{plain(who?.tenant ?? "")}</dd>
            </div>
            {who?.workspace && (
              <div>
                <dt>Workspace</dt>
                <dd>{plain(who.workspace)}</dd>
              </div>
            )}
            <div>
              <dt>Principal</dt>
              <dd class="mono">{plain(who?.principal ?? "")}</dd>
            </div>
            <div>
              <dt>Scopes</dt>
              <dd>{(who?.scopes ?? []).map(plain).join(", ")}</dd>
            </div>
            {who?.expiresAt && (
              <div>
                <dt>Session ends</dt>
                <dd>
                  <Time at={who.expiresAt} />
                </dd>
              </div>
            )}
          </dl>
        </section>
        {may("audit:read") && (
          <section>
            <h2>Audit trail</h2>
            <p>
              <Button
                onClick={async () => {
                  audit.value = (await call("get", "/v1/audit/verify")) as unknown as Json;
                }}
              >
                Verify
              </Button>{" "}
              {audit.value !== null && <Verdict found={audit.value} />}
            </p>
            {audit.value !== null && <Tree value={audit.value} depth={0} />}
          </section>
        )}
        {about.value !== null && (
          <section>
            <h2>What this server provides</h2>
            <p class="faint">Version {plain(text(fields(about.value).protocolVersion))} of the protocol.</p>
            <Value name="capabilities" value={about.value} />
          </section>
        )}
      </div>
    </main>
  );
}

function Verdict({ found }: { found: Json }) {
  const valid = fields(found).chainValid === true;
  return (
    <>
      <Sign status={valid ? "completed" : "failed"} /> {valid ? "every entry is as it was written" : "the trail was changed"}
    </>
  );
}
