// Lets the real workbench client drive a server: runs are recorded by its runtime, saved, loaded,
// listed and deleted over its HTTP repository, and read by its MCP tools. Prints "driven".
import assert from "node:assert/strict";
import * as mcp from "@llm-workbench/mcp";
import * as wb from "@llm-workbench/runtime";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";

const [url, key, strangersKey] = process.argv.slice(2);

const repository = (token) =>
  new wb.HttpRunRepository({
    baseUrl: `${url}/api`,
    getHeaders: () => ({ authorization: `Bearer ${token}` }),
  });
const ours = repository(key);
const strangers = repository(strangersKey);

const plain = (state) =>
  JSON.parse(
    JSON.stringify(state, (_, value) => (value instanceof Map ? [...value.entries()] : value)),
  );
const runtime = new wb.WorkbenchRuntime();
let saves = 0;
async function roundTrip(id) {
  const state = runtime.getState(id);
  await ours.save(state);
  saves += 1;
  const loaded = await ours.load(id);
  assert.deepEqual(plain(loaded), plain(state));
  return loaded;
}

const step = (id, gatePolicy) => ({ id, title: id, gatePolicy, inputs: [], outputs: [] });
const workflow = {
  id: "letters",
  version: 1,
  title: "Letters",
  steps: [
    step("plan", "AUTO"),
    step("draft", "PAUSE_BEFORE"),
    step("review", "PAUSE_AFTER"),
    step("send", "CHECKPOINT"),
    step("file", "AUTO"),
  ],
  edges: [
    { id: "e1", from: "plan", to: "draft" },
    { id: "e2", from: "draft", to: "review" },
    { id: "e3", from: "review", to: "send" },
    { id: "e4", from: "send", to: "file" },
  ],
};
const rules = {
  id: "tone",
  ruleSchemaId: "tone.v1",
  rules: [
    { id: "kind", priority: 0, enabled: true, payload: { words: ["please"] } },
    { id: "short", priority: 1, enabled: false, label: "short", payload: 12 },
  ],
};
const { runId } = runtime.startRun({
  workflow,
  initialArtifacts: [
    { artifact: { artifactKey: "brief", typeId: "brief.v1", data: { to: "Ann", n: [1, 2.5] } } },
  ],
  ruleSets: [rules],
  subject: { userId: "u1", tenantId: "not-ours" },
  metadata: { "10": "ten", "9": "nine" },
  tags: ["blue", "grün"],
});
const session = runtime.session(runId);
const calls = [
  () => session.annotate({ text: "begun", tags: ["note"] }),
  () => assert.equal(session.beginStep("plan").ok, true),
  () => session.logModelIO({ stepId: "plan", direction: "request", provider: "p", model: "m" }),
  () =>
    session.logModelIO({
      stepId: "plan",
      direction: "response",
      provider: "p",
      model: "m",
      usage: { inputTokens: 120, outputTokens: 30 },
      cost: { amount: 0.0125, currency: "usd" },
      durationMs: 812.5,
      summary: "done",
      payload: { text: "…😀" },
      detail: "full",
    }),
  () => session.logToolCall({ stepId: "plan", name: "search", args: { q: "x" }, result: [null] }),
  () => session.completeStep("plan"),
  () => session.requestGate({ stepId: "draft", gate: "PAUSE_BEFORE", reason: "may we?" }),
  () => session.resolveGate({ stepId: "draft", gate: "PAUSE_BEFORE", decision: "rejected" }),
  () => session.resolveGate({ stepId: "draft", gate: "PAUSE_BEFORE", decision: "edited", note: "ok" }),
  () => assert.equal(session.beginStep("draft").ok, true),
  () =>
    session.writeArtifact({
      artifactKey: "letter",
      typeId: "letter.v1",
      data: { lines: ["a"], by: { name: "x" } },
      idempotencyKey: "first",
    }),
  () =>
    session.patchArtifact({
      artifactKey: "letter",
      patch: [
        { op: "add", path: "/lines/-", value: "b" },
        { op: "replace", path: "/by/name", value: "y" },
        { op: "test", path: "/lines/0", value: "a" },
      ],
      idempotencyKey: "second",
    }),
  () =>
    session.patchArtifact({
      artifactKey: "letter",
      patch: [
        { op: "copy", from: "/by", path: "/also" },
        { op: "move", from: "/lines/0", path: "/first" },
        { op: "remove", path: "/by" },
      ],
    }),
  () => session.writeArtifactAsync({ artifactKey: "big", typeId: "t", data: "x".repeat(200_000) }),
  () => session.span("outer", async (span) => {
    const inner = session.beginSpan({ name: "inner", parentSpanId: span.spanId, kind: "client" });
    inner.end({ status: "ok", attributes: { n: 1 } });
  }),
  () => session.completeStep("draft"),
  () => session.reorderRules({ ruleSetId: "tone", orderedRuleIds: ["short", "kind"] }),
  () => session.replaceRuleSet({ ...rules, id: "other" }),
  () => assert.equal(session.beginStep("review").ok, true),
  () => session.completeStep("review"),
  () => session.resolveGate({ stepId: "review", gate: "PAUSE_AFTER", decision: "approved" }),
  () => session.resolveGate({ stepId: "send", gate: "CHECKPOINT", decision: "approved" }),
  () => session.resolveGate({ stepId: "send", gate: "CHECKPOINT", decision: "approved", note: "n" }),
  () => session.resolveCheckpoint({ stepId: "send", checkpointId: "legal", decision: "rejected" }),
  () => session.resolveCheckpoint({ stepId: "send", checkpointId: "legal", decision: "approved" }),
  () => assert.equal(session.beginStep("send").ok, true),
  () => session.failStep("send", { message: "no stamps", code: "STAMPS" }),
  () => session.failRun({ message: "given up" }),
];
await roundTrip(runId);
for (const call of calls) {
  await call();
  await roundTrip(runId);
}

// A fork and a child with two parents, by the client's own helpers.
const fork = runtime.startRun(wb.buildForkStartInput(runtime.getState(runId), { forkedFromStepId: "draft" }));
runtime.session(fork.runId).forkNotice(runId, "draft");
await roundTrip(fork.runId);
const child = runtime.startRun(
  wb.buildAgentChildStartInput({
    parents: [runtime.getState(runId), runtime.getState(fork.runId)],
    workflow,
  }),
);
await roundTrip(child.runId);

// What was loaded can be gone on with, and saving the same again changes nothing.
const again = new wb.WorkbenchRuntime();
again.importState(await ours.load(fork.runId));
again.session(fork.runId).cancelRun({ reason: "enough" });
await ours.save(again.getState(fork.runId));
await ours.save(again.getState(fork.runId));
const get = async (path) => {
  const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal(answer.status, 200, path);
  return answer.json();
};
const history = await get(`/api/runs/${runId}/revisions?limit=500`);
assert.equal(history.saves, saves - 2);
for (const row of history.revisions) assert.equal(row.branch, false);
for (const parent of [runId, fork.runId]) {
  const { children } = await get(`/api/runs/${parent}/children`);
  assert.ok(children.some((row) => row.id === child.runId));
}

// Bundles: the server's is one the client takes, and the other way round.
const bundle = await get(`/api/runs/${runId}/bundle`);
const parsed = wb.parseRunBundleJson(JSON.stringify(bundle));
assert.equal(await wb.verifyRunBundleIntegrity(parsed), true);
await new wb.WorkbenchRuntime().importRunBundle({ json: JSON.stringify(bundle) });
const clean = new wb.WorkbenchRuntime();
clean.importState(await ours.load(runId));
const exported = await clean.session(runId).exportRunBundle();
const verified = await fetch(`${url}/api/bundles/verify`, {
  method: "POST",
  headers: { authorization: `Bearer ${key}` },
  body: JSON.stringify(exported),
});
const found = await verified.json();
assert.deepEqual([found.integrity, found.structure], ["valid", "valid"]);
assert.equal(found.sha256, exported.integrity.sha256);
assert.deepEqual(found.stalePayloadHashes, []);

// The list, and the wall.
const listed = await ours.list({ limit: 10 });
assert.deepEqual(
  listed.map((row) => row.status).sort(),
  ["cancelled", "failed", "running"],
);
assert.deepEqual(await strangers.list(), []);
assert.equal(await strangers.load(runId), null);
await strangers.delete(runId);
await strangers.save(again.getState(fork.runId));
assert.notEqual(await ours.load(runId), null);

// A document the server refuses is an error with its code, sent once.
const bad = structuredClone(plain(runtime.getState(child.runId)));
bad.trace.push({ id: "x", type: "annotation", ts: "now", runId: "run_other" });
const refused = await fetch(`${url}/api/runs/${child.runId}`, {
  method: "PUT",
  headers: { authorization: `Bearer ${key}` },
  body: JSON.stringify(bad),
});
assert.equal(refused.status, 400);
assert.equal((await refused.json()).code, "INVALID_RUN_STATE");

// Large runs. The client sends again what it takes for a broken connection: how often it asked is
// counted, and what is too large must be heard the first time.
const sized = (bytes) => {
  const state = structuredClone(runtime.getState(child.runId));
  state.run.metadata = { pad: "" };
  const length = Buffer.byteLength(JSON.stringify(plain(state)));
  state.run.metadata.pad = "x".repeat(bytes - length);
  return state;
};
let asked = 0;
const ask = globalThis.fetch;
globalThis.fetch = (...args) => {
  asked += 1;
  return ask(...args);
};
const large = sized(24_990_000);
await ours.save(large);
assert.equal(asked, 1);
assert.deepEqual(plain(await ours.load(child.runId)), plain(large));
asked = 0;
await assert.rejects(ours.save(sized(26_300_000)), /413/);
assert.equal(asked, 1, "a refusal is heard the first time");
// As a stream, without a length.
const chunked = async (bytes) => {
  const body = Buffer.from(JSON.stringify(plain(sized(bytes))));
  const parts = async function* () {
    for (let at = 0; at < body.length; at += 1 << 20) yield body.subarray(at, at + (1 << 20));
  };
  return ask(`${url}/api/runs/${child.runId}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${key}` },
    body: ReadableStream.from(parts()),
    duplex: "half",
  });
};
assert.equal((await chunked(24_990_000)).status, 204);
const over = await chunked(26_300_000);
assert.deepEqual([over.status, (await over.json()).code], [413, "BODY_TOO_LARGE"]);
await ours.save(runtime.getState(child.runId));
globalThis.fetch = ask;

// A gate that is decided on the server reaches the browser, and its later saves keep it.
const waiting = runtime.startRun({ workflow });
const waits = runtime.session(waiting.runId);
waits.beginStep("plan");
waits.completeStep("plan");
waits.requestGate({ stepId: "draft", gate: "PAUSE_BEFORE", reason: "well?" });
await roundTrip(waiting.runId);
const decided = await fetch(`${url}/v1/runs/${waiting.runId}/interrupts/draft`, {
  method: "POST",
  headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
  body: JSON.stringify({ resumeValue: { action: "accept" } }),
});
assert.equal(decided.status, 200);
waits.annotate({ text: "meanwhile" });
await ours.save(runtime.getState(waiting.runId));
const knowing = new wb.WorkbenchRuntime();
knowing.importState(await ours.load(waiting.runId));
assert.equal(knowing.session(waiting.runId).beginStep("draft").ok, true);
await ours.save(knowing.getState(waiting.runId));
await ours.delete(waiting.runId);

// The MCP tools over the repository.
const server = mcp.createWorkbenchMcpServer({ runRepository: ours });
const client = new Client({ name: "test", version: "1" });
const [near, far] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(far), client.connect(near)]);
const call = async (name, args) => {
  const answer = await client.callTool({ name, arguments: args });
  assert.ok(!answer.isError, JSON.stringify(answer));
  return answer.content[0].text;
};
assert.ok((await call("list_runs", { limit: 10 })).includes(runId));
assert.ok((await call("get_run", { runId })).includes(runId));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert.ok(tools.includes("verify_run_integrity") && tools.includes("validate_run_bundle"));
for (const tool of ["verify_run_integrity", "validate_run_bundle"]) {
  assert.equal(JSON.parse(await call(tool, { bundle })).ok, true);
}
await client.close();

await ours.delete(runId);
assert.equal(await ours.load(runId), null);
console.log("driven");
