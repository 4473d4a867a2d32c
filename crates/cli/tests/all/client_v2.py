"""Drives a server with the official OpenWOP 2 client: create, watch, steer, fork, answer."""

import json
import sys
import threading
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue

from openwop_client import (
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateAnnotationRequest,
    CreateRunRequest,
    ForkRunRequest,
    OpenwopClient,
    PauseRunRequest,
    RegisterWebhookRequest,
    ResolveInterruptRequest,
    ResumeRunRequest,
    WopError,
    read_webhook_headers,
    verify_webhook_signature,
)
from openwop_client.types import RunConfigurable, is_http_error_code, is_vendor_error_code
from openwop_client.wire_id import project_id

url, key = sys.argv[1:]
client = OpenwopClient(url, key)


def new_key():
    return str(uuid.uuid4())


capabilities = client.discovery_capabilities()
assert capabilities.preferredVersion.startswith("1."), capabilities
assert "2.0" in capabilities.protocolVersions, capabilities
assert capabilities.eventLogSchemaVersion == 3, capabilities
for family in ("limits", "runList", "eventLog", "replay", "interrupt", "webhooks", "feedback", "auth"):
    assert capabilities.family(family) is not None, family
assert client.discovery_openapi()["openapi"].startswith("3.1")
assert client.workflows_get("three")["id"] == "three"

# Create, with what the client can say; the same key again is the same run.
order = CreateRunRequest(
    workflowId="three",
    inputs={"who": "world"},
    configurable=RunConfigurable(run={"recursionLimit": 50}),
    tags=["from-python-2"],
    metadata={"a": 1},
)
name = new_key()
created = client.runs_create(order, idempotency_key=name)
assert created == client.runs_create(order, idempotency_key=name), created
assert created.runId.startswith("acme/run-"), created
assert created.eventsUrl == f"/runs/{project_id(created.runId)}/events", created

# Stream to the end, in every mode.
streamed = list(client.runs_events(created.runId))
assert streamed[0].type == "run.started" and streamed[-1].type == "run.completed", streamed
debug = list(client.runs_events(created.runId, stream_mode="debug"))
assert [event.sequence for event in debug] == list(range(8)), debug
assert all(event.runId == created.runId for event in debug), debug
assert {event.eventId for event in streamed} <= {event.eventId for event in debug}
assert list(client.runs_events(created.runId, stream_mode="messages")) == []
mixed = list(client.runs_events(created.runId, stream_mode=["updates", "messages"]))
assert [event.eventId for event in mixed] == [event.eventId for event in streamed]
buffered = list(client.runs_events(created.runId, stream_mode="debug", buffer_ms=200))
assert [event.eventId for event in buffered] == [event.eventId for event in debug]
rest = list(client.runs_events(created.runId, stream_mode="debug", last_event_id="5"))
assert [event.sequence for event in rest] == [6, 7], rest
list(client.runs_events(created.runId, stream_mode="values"))

# Poll and look.
page = client.runs_poll_events(created.runId)
assert page.isTerminal and page.events == debug and page.lastSequence == 7, page
page = client.runs_poll_events(created.runId, after_sequence=5, timeout_seconds=1)
assert [event.sequence for event in page.events] == [6, 7], page
snapshot = client.runs_get(created.runId)
assert snapshot.runId == created.runId and snapshot.status == "completed", snapshot
assert snapshot.tags == ["from-python-2"], snapshot
assert snapshot.configurable == {"version": 1, "run": {"recursionLimit": 50}}, snapshot
assert snapshot.owner.subject.lane == "api-key" and snapshot.owner.tenant == "acme", snapshot
listed = client.runs_list(workflow_id="three", limit=2)
assert listed.runs and all(run.workflowId == "three" for run in listed.runs), listed


# Refusals have registered codes.
def refused(status, code, call):
    try:
        call()
    except WopError as error:
        assert error.status == status, (error.status, error.raw_text)
        assert error.envelope is not None and error.envelope.error == code, error.raw_text
        assert is_http_error_code(code) or is_vendor_error_code(code), code
        return
    raise AssertionError(f"not refused: {code}")


refused(404, "not_found", lambda: client.runs_get("acme/run-none"))
refused(403, "id_tenant_mismatch", lambda: client.runs_get("umbrella/run-0000000000000000"))
refused(404, "not_found", lambda: client.runs_create(CreateRunRequest(workflowId="none")))
other = CreateRunRequest(workflowId="waits")
refused(409, "idempotency_key_mismatch", lambda: client.runs_create(other, idempotency_key=name))
refused(400, "idempotency_key_invalid", lambda: client.runs_create(other, idempotency_key="short"))
refused(401, "unauthenticated", lambda: OpenwopClient(url, "wrong").runs_get(created.runId))
refused(406, "protocol_version_unsupported", lambda: OpenwopClient(url, key, major=3).runs_get("x"))
assert client.agents_list() is None

# Cancel.
waiting = client.runs_create(other)
assert client.runs_get(waiting.runId).status in ("pending", "running")
cancelled = client.runs_cancel(waiting.runId, CancelRunRequest(reason="enough"), idempotency_key=new_key())
assert cancelled.status in ("cancelling", "cancelled"), cancelled
assert list(client.runs_events(waiting.runId))[-1].type == "run.cancelled"
refused(409, "run_terminal", lambda: client.runs_cancel(waiting.runId))

# Fork.
def told(run_id):
    return [(e.sequence, e.type, e.nodeId) for e in client.runs_poll_events(run_id).events]


replay = client.runs_fork(created.runId, ForkRunRequest(mode="replay", fromSeq=0), idempotency_key=new_key())
assert replay.sourceRunId == created.runId and told(replay.runId) == told(created.runId), replay
same = client.runs_diff(created.runId, replay.runId)
assert same.a == created.runId and same.eventDiffs == [], same
branch = client.runs_fork(created.runId, ForkRunRequest(mode="branch", fromSeq=3))
assert list(client.runs_events(branch.runId))[-1].type == "run.completed"
assert client.runs_get(branch.runId).parentRunId == created.runId
refused(422, "fork_point_invalid", lambda: client.runs_fork(created.runId, ForkRunRequest(mode="branch", fromSeq=99)))
assert client.runs_ancestry(created.runId).parent is None

# Annotate.
said = client.create_annotation(
    created.runId, CreateAnnotationRequest(signal={"kind": "rating", "rating": 5}, note="good")
)
assert said.target["runId"] == created.runId, said
assert [note.annotationId for note in client.list_annotations(created.runId)] == [said.annotationId]


# Questions of a run, answered by node and by the token of the snapshot.
def until(run, status):
    while True:
        snapshot = client.runs_get(run)
        if snapshot.status == status:
            return snapshot
        assert snapshot.status in ("pending", "running"), snapshot
        seen = client.runs_poll_events(run).lastSequence
        client.runs_poll_events(run, after_sequence=seen, timeout_seconds=5)


def token_of(run):
    headers = {"Authorization": f"Bearer {key}", "OpenWOP-Version": "2"}
    asked = urllib.request.Request(f"{url}/runs/{project_id(run)}", headers=headers)
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["OpenWOP-Version"] == "2.0"
        shown = json.load(answer)["extensions"]["runwright.run"]["interrupts"]
        return shown[0]["interruptToken"]


accept = ResolveInterruptRequest(resumeValue={"action": "accept"})
first = client.runs_create(CreateRunRequest(workflowId="signs"))
assert until(first.runId, "waiting-approval").currentNodeId == "gate"
odd = ResolveInterruptRequest(resumeValue={"action": "explode"})
refused(400, "validation_error", lambda: client.interrupts_resolve_by_run(first.runId, "gate", odd))
name = new_key()
resolved = client.interrupts_resolve_by_run(first.runId, "gate", accept, idempotency_key=name)
assert resolved == client.interrupts_resolve_by_run(first.runId, "gate", accept, idempotency_key=name)
assert resolved.runId == first.runId and resolved.nodeId == "gate", resolved
refused(409, "interrupt_already_resolved", lambda: client.interrupts_resolve_by_run(first.runId, "gate", accept))
ended = list(client.runs_events(first.runId))
assert ended[-1].type == "run.completed", ended
decided = [event for event in ended if event.type == "interrupt.resolved"]
assert decided[0].payload["decision"] == "granted", decided
assert decided[0].payload["resolvedBy"]["tenant"] == "acme", decided

second = client.runs_create(CreateRunRequest(workflowId="signs"))
until(second.runId, "waiting-approval")
token = token_of(second.runId)
shown = client.interrupts_inspect_by_token(token)
assert shown.kind == "approval" and shown.data["actions"] == ["accept", "reject"], shown
assert client.interrupts_resolve_by_token(token, accept)["runId"] == second.runId
refused(409, "interrupt_already_resolved", lambda: client.interrupts_resolve_by_token(token, accept))
refused(401, "interrupt_token_invalid", lambda: client.interrupts_inspect_by_token("nothing"))

# Pause and resume; many are cancelled at once.
third = client.runs_create(other)
paused = client.runs_pause(third.runId, PauseRunRequest(drainPolicy="immediate", reason="lunch"))
assert paused.status == "paused" and paused.pausedAt, paused
assert client.runs_get(third.runId).status == "paused"
refused(409, "run_state_conflict", lambda: client.runs_pause(third.runId))
resumed = client.runs_resume(third.runId, ResumeRunRequest(reason="back"))
assert resumed.status == "running" and resumed.resumedAt, resumed
ids = [third.runId, first.runId, "acme/run-none", "umbrella/run-0000000000000000"]
results = client.runs_bulk_cancel(BulkCancelRunsRequest(runIds=ids)).results
assert [result.ok for result in results] == [True, False, False, False], results
codes = [result.error["error"] for result in results[1:]]
assert codes == ["run_terminal", "not_found", "id_tenant_mismatch"], results

# Webhooks: deliveries verify, and name the run as the client does.
arrivals = Queue()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        arrivals.put((dict(self.headers), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/hook"
webhook = client.webhooks_register(
    RegisterWebhookRequest(url=address, events=["run.completed"], tags=["hook"]), idempotency_key=new_key()
)
assert webhook.subscriptionId.startswith("acme/wh_"), webhook
told_of = client.runs_create(CreateRunRequest(workflowId="three", tags=["hook"]))
headers, body = arrivals.get(timeout=60)
read = read_webhook_headers(headers)
assert read.family == "openwop" and read.algorithm == "v1", headers
assert verify_webhook_signature(webhook.secret, read.signature, read.timestamp, body).valid
assert json.loads(body)["runId"] == told_of.runId, body
assert client.webhooks_dead_letters(webhook.subscriptionId).deliveries == []
client.webhooks_unregister(webhook.subscriptionId)
refused(404, "not_found", lambda: client.webhooks_unregister(webhook.subscriptionId))

print("driven")
