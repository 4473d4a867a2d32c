// Lets the RuntimeBridge of the published package drive the program that OMX_RUNTIME_BINARY names.
//
//     node bridge.mjs BRIDGE STATE_DIR

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [from, stateDir] = process.argv.slice(2);
const { RuntimeBridge } = await import(pathToFileURL(from).href);
const bridge = new RuntimeBridge({ stateDir });
assert.ok(bridge.isEnabled());

const record = (id) =>
  bridge.readDispatchRecordsStrict().find((one) => one.request_id === id);

bridge.initStateDir(stateDir);
assert.deepEqual(bridge.readDispatchRecordsStrict(), []);
assert.deepEqual(bridge.readSnapshot().readiness, {
  ready: false,
  reasons: ["authority lease not acquired"],
});
assert.deepEqual(
  bridge.execCommand({
    command: "AcquireAuthority",
    owner: "lead",
    lease_id: "l1",
    leased_until: "2026-03-19T02:00:00Z",
  }),
  {
    event: "AuthorityAcquired",
    owner: "lead",
    lease_id: "l1",
    leased_until: "2026-03-19T02:00:00Z",
  },
);
assert.equal(bridge.readAuthority().owner, "lead");
assert.equal(bridge.readReadiness().ready, true);

// Queue, notify, deliver and fail, with what the team code says about a request.
const metadata = {
  kind: "inbox",
  team_name: "blue",
  worker_index: 2,
  pane_id: "%3",
  trigger_message: "read your \"inbox\"\n",
  transport_preference: "hook_preferred_with_fallback",
  fallback_allowed: true,
  attempt_count: 0,
};
for (const id of ["done", "told", "never", "rolled-back"]) {
  const queued = bridge.execCommand({
    command: "QueueDispatch",
    request_id: id,
    target: "worker-2",
    metadata,
  });
  assert.deepEqual(queued.metadata, metadata);
}
assert.throws(
  () =>
    bridge.execCommand({
      command: "QueueDispatch",
      request_id: "done",
      target: "worker-2",
    }),
  /omx-runtime exec failed: omx-runtime: dispatch error: duplicate dispatch request id: done/,
);
for (const id of ["done", "told"]) {
  bridge.execCommand({ command: "MarkNotified", request_id: id, channel: "tmux" });
}
bridge.execCommand({ command: "MarkDelivered", request_id: "done" });
bridge.execCommand({ command: "MarkFailed", request_id: "told", reason: "pane gone" });
bridge.execCommand({ command: "MarkFailed", request_id: "never", reason: "no target" });
assert.throws(
  () => bridge.execCommand({ command: "MarkDelivered", request_id: "rolled-back" }),
  /invalid transition for rolled-back: pending -> delivered/,
);
assert.equal(record("done").status, "delivered");
assert.equal(record("done").reason, "tmux");
assert.ok(record("done").created_at <= record("done").delivered_at);
assert.equal(record("told").reason, "pane gone");
assert.deepEqual(record("never").metadata, metadata);
assert.deepEqual(bridge.readBacklog(), { pending: 1, notified: 0, delivered: 1, failed: 2 });

// Remove, as a rollback of workers does it.
bridge.execCommand({ command: "CaptureSnapshot" });
assert.deepEqual(bridge.removeDispatchRecords(["rolled-back"]).request_ids, ["rolled-back"]);
bridge.execCommand({ command: "CaptureSnapshot" });
assert.equal(record("rolled-back"), undefined);
assert.equal(bridge.readDispatchRecordsStrict().length, 3);
assert.throws(
  () => bridge.removeDispatchRecords(["rolled-back"]),
  /dispatch record not found: rolled-back/,
);

// Mailbox.
for (const id of ["m1", "m2"]) {
  bridge.execCommand({
    command: "CreateMailboxMessage",
    message_id: id,
    from_worker: "lead",
    to_worker: "worker-2",
    body: "é \"quoted\"\n",
  });
}
bridge.execCommand({ command: "MarkMailboxNotified", message_id: "m1" });
bridge.execCommand({ command: "MarkMailboxDelivered", message_id: "m1" });
bridge.execCommand({ command: "MarkMailboxDelivered", message_id: "m2" });
const mail = bridge.readMailboxRecords();
assert.deepEqual(
  mail.map((one) => [one.message_id, one.notified_at === null, one.delivered_at === null]),
  [
    ["m1", false, false],
    ["m2", true, false],
  ],
);
assert.equal(mail[0].body, "é \"quoted\"\n");
assert.throws(
  () => bridge.execCommand({ command: "MarkMailboxNotified", message_id: "m2" }),
  /mailbox message already delivered: m2/,
);

// Snapshot: printed and on file it is the same.
bridge.execCommand({ command: "CaptureSnapshot" });
const snapshot = bridge.readSnapshot();
assert.deepEqual(snapshot, bridge.readCompatFile("snapshot.json"));
assert.deepEqual(snapshot.authority, bridge.readAuthority());
assert.equal(snapshot.authority.stale, false);
assert.equal(snapshot.backlog.pending, 0);
bridge.execCommand({ command: "RequestReplay", cursor: "cursor-1" });
assert.equal(bridge.readSnapshot().replay.cursor, "cursor-1");
console.log("driven");
