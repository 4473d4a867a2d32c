// The server: who the viewer is, what it provides, keys, the audit trail.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Schemas, call, may, session } from "../api";
import { plain, short } from "../format";
import { Tree, Value } from "../json";
import { href } from "../route";
import { Button, Copy, Dialog, Empty, Problems, Sign, Tabs, Time, note } from "../ui";
import { type Json, fields, text } from "../view";

export function ServerPage({ part }: { part: string }) {
  const ready = useSignal("…");
  useEffect(() => {
    call("get", "/readyz")
      .then((found) => (ready.value = found.status))
      .catch((failed: unknown) => (ready.value = failed instanceof Error ? failed.message : "not ready"));
  }, []);
  const tabs = [
    { id: "", name: "Overview" },
    ...(may("keys:manage") ? [{ id: "keys", name: "Keys" }] : []),
    ...(may("audit:read") ? [{ id: "audit", name: "Audit trail" }] : []),
  ];
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Server</h1>
        <Sign status={ready.value === "ready" ? "completed" : "failed"} />
        <span>{plain(ready.value)}</span>
      </header>
      <Tabs
        label="Parts of the server"
        tabs={tabs}
        current={part}
        href={(id) => href(id ? ["server", id] : ["server"])}
      />
      {part === "keys" ? <Keys /> : part === "audit" ? <Audit /> : <About />}
    </main>
  );
}

function About() {
  const about = useSignal<Json | null>(null);
  const who = session.value;
  useEffect(() => {
    call("get", "/.well-known/openwop")
      .then((found) => (about.value = found as unknown as Json))
      .catch(() => undefined);
  }, []);
  const facts: [string, string][] = [
    ["Tenant", who?.tenant ?? ""],
    ["Workspace", who?.workspace ?? ""],
    ["Principal", who?.principal ?? ""],
    ["Scopes", (who?.scopes ?? []).join(", ")],
  ];
  return (
    <div class="sections">
      <section>
        <h2>You</h2>
        <dl class="facts">
          {facts
            .filter(([, value]) => value !== "")
            .map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{plain(value)}</dd>
              </div>
            ))}
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
      {about.value !== null && (
        <section>
          <h2>What this server provides</h2>
          <p class="faint">Version {plain(text(fields(about.value).protocolVersion))} of the protocol.</p>
          <Value name="capabilities" value={about.value} />
        </section>
      )}
    </div>
  );
}

type Key = Schemas["Key"];

function Keys() {
  const list = useSignal<Key[] | null>(null);
  const error = useSignal<unknown>(null);
  const making = useSignal(false);
  const made = useSignal<Schemas["CreatedKey"] | null>(null);
  const read = async () => {
    try {
      list.value = (await call("get", "/v1/keys")).keys;
    } catch (failed) {
      error.value = failed;
    }
  };
  useEffect(() => void read(), []);
  const revoke = async (key: Key) => {
    if (!confirm(`Revoke the key ${key.name ?? key.keyId}? Its users are locked out at once.`)) return;
    await call("delete", "/v1/keys/{keyId}", {
      path: { keyId: key.keyId },
      query: { reason: "revoked in the console" },
    });
    note("done", "Revoked");
    await read();
  };
  return (
    <div class="tab">
      <p class="pad">
        <Button kind="main" onClick={() => void (making.value = true)}>
          New key…
        </Button>
      </p>
      {error.value !== null && <Problems error={error.value} />}
      {list.value?.length === 0 && (
        <Empty title="No key exists">
          <p>Keys let programs and people use this server.</p>
        </Empty>
      )}
      {list.value && list.value.length > 0 && (
        <div class="scroll">
          <table class="rows">
            <thead>
              <tr>
                <th>Key</th>
                <th>Status</th>
                <th>Name</th>
                <th class="wide">Principal</th>
                <th class="wide">Workspace</th>
                <th>Scopes</th>
                <th class="wide">Made</th>
                <th class="wide">Expires</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.value.map((key) => (
                <tr key={key.keyId}>
                  <td class="mono">{plain(short(key.keyId))}</td>
                  <td>
                    <Sign status={key.status === "live" ? "completed" : "cancelled"} /> {plain(key.status)}
                    {key.revokeReason && <span class="faint">: {plain(key.revokeReason)}</span>}
                  </td>
                  <td>{plain(key.name ?? "")}</td>
                  <td class="wide">{key.principal === key.keyId ? "the key" : plain(key.principal)}</td>
                  <td class="wide">{plain(key.workspace ?? "all")}</td>
                  <td>{key.scopes.map(plain).join(", ")}</td>
                  <td class="wide">
                    <Time at={key.createdAt} relative />
                  </td>
                  <td class="wide">
                    <Time at={key.expiresAt ?? null} relative />
                  </td>
                  <td class="end">
                    {key.status === "live" && (
                      <Button
                        kind="danger"
                        label={`Revoke key ${key.name ?? short(key.keyId)}`}
                        onClick={() => revoke(key)}
                      >
                        Revoke
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {making.value && (
        <NewKey
          onClose={() => (making.value = false)}
          onMade={async (key) => {
            making.value = false;
            made.value = key;
            await read();
          }}
        />
      )}
      {made.value && (
        <Dialog title="The new key" onClose={() => (made.value = null)}>
          <p>Keep it now: it is shown only once.</p>
          <pre class="command">{made.value.token}</pre>
          <footer>
            <Copy label="Copy the key" value={() => made.value?.token ?? ""} />
            <Button kind="main" onClick={() => void (made.value = null)}>
              I have kept it
            </Button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}

const SCOPES = [
  "manifest:read",
  "runs:create",
  "runs:read",
  "runs:cancel",
  "artifacts:read",
  "approvals:respond",
  "approvals:delegate",
  "webhooks:manage",
  "audit:read",
  "workflows:write",
  "keys:manage",
  "workers:take",
  "coordinator:read",
  "coordinator:write",
];
const LIVES: [string, number | null][] = [
  ["until it is revoked", null],
  ["for a day", 86_400_000],
  ["for 30 days", 2_592_000_000],
  ["for a year", 31_536_000_000],
];

function NewKey(props: {
  onClose: () => void;
  onMade: (key: Schemas["CreatedKey"]) => Promise<void>;
}) {
  const name = useSignal("");
  const life = useSignal(0);
  const chosen = useSignal(new Set<string>(["runs:read"]));
  const offered = SCOPES.filter(may);
  const make = async () => {
    const body: Schemas["KeyOrder"] = {
      scopes: [...chosen.value],
      name: name.value.trim() || null,
      expiresInMs: LIVES[life.value]?.[1] ?? null,
    };
    await props.onMade(await call("post", "/v1/keys", { body }));
  };
  return (
    <Dialog title="New key" onClose={props.onClose}>
      <label class="filter">
        <span>Name</span>
        <input
          type="text"
          maxLength={256}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
      </label>
      <label class="filter">
        <span>Valid</span>
        <select onChange={(event) => (life.value = Number(event.currentTarget.value))}>
          {LIVES.map(([words], at) => (
            <option key={words} value={at}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <fieldset>
        <legend>It may</legend>
        <div class="two">
          {offered.map((scope) => (
            <label key={scope} class="check">
              <input
                type="checkbox"
                checked={chosen.value.has(scope)}
                onChange={(event) => {
                  const set = new Set(chosen.value);
                  if (event.currentTarget.checked) set.add(scope);
                  else set.delete(scope);
                  chosen.value = set;
                }}
              />
              {scope}
            </label>
          ))}
        </div>
      </fieldset>
      <footer>
        <Button onClick={props.onClose}>Close</Button>
        <Button kind="main" disabled={chosen.value.size === 0} onClick={make}>
          Make the key
        </Button>
      </footer>
    </Dialog>
  );
}

type Entry = Schemas["AuditEntries"]["entries"][number];

function Audit() {
  const list = useSignal<Entry[] | null>(null);
  const next = useSignal<number | null>(null);
  const error = useSignal<unknown>(null);
  const verified = useSignal<Json | null>(null);
  const read = async () => {
    const query = { limit: 100, before: next.value ?? undefined };
    const page = await call("get", "/v1/audit", { query });
    list.value = [...(list.value ?? []), ...page.entries];
    next.value = page.nextBefore;
  };
  useEffect(() => void read().catch((failed: unknown) => (error.value = failed)), []);
  const valid = verified.value !== null && fields(verified.value).chainValid === true;
  return (
    <div class="tab">
      <p class="pad">
        <Button
          onClick={async () => {
            verified.value = (await call("get", "/v1/audit/verify")) as unknown as Json;
          }}
        >
          Verify
        </Button>{" "}
        {verified.value !== null && (
          <>
            <Sign status={valid ? "completed" : "failed"} />{" "}
            {valid ? "every entry is as it was written" : "the trail was changed"}
          </>
        )}
      </p>
      {verified.value !== null && !valid && <Tree value={verified.value} depth={0} />}
      {error.value !== null && <Problems error={error.value} />}
      {list.value?.length === 0 && (
        <Empty title="The trail is empty">
          <p>Runs, answers, keys, webhooks and workflows leave an entry here.</p>
        </Empty>
      )}
      {list.value && list.value.length > 0 && (
        <div class="scroll">
          <table class="rows">
            <thead>
              <tr>
                <th class="end">Entry</th>
                <th>When</th>
                <th>Action</th>
                <th>By</th>
                <th>On</th>
                <th class="wide">Outcome</th>
              </tr>
            </thead>
            <tbody>
              {list.value.map((one) => (
                <tr key={one.sequence}>
                  <td class="end num">{one.sequence}</td>
                  <td>
                    <Time at={one.decidedAt ?? one.recordedAt} />
                  </td>
                  <td class="mono">{plain(one.action)}</td>
                  <td>{plain(one.by?.principal ?? "")}</td>
                  <td>
                    {plain(one.on.kind)}{" "}
                    {one.on.kind === "run" && one.on.id ? (
                      <a class="mono" href={href(["runs", one.on.id])}>
                        {plain(short(one.on.id))}
                      </a>
                    ) : (
                      <span class="mono">{plain(short(one.on.id ?? ""))}</span>
                    )}
                  </td>
                  <td class="wide">{outcome(one.outcome as Json | undefined)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {next.value !== null && (
        <p class="pad">
          <Button onClick={read}>Show older entries</Button>
        </p>
      )}
    </div>
  );
}

function outcome(of: Json | undefined): string {
  if (of === undefined || of === null) return "";
  return plain(typeof of === "string" ? of : JSON.stringify(of));
}
