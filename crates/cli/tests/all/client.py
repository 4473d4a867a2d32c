"""Drives a server with the official OpenWOP client: create, watch, cancel, fork, annotate."""

import json
import sys
import urllib.request

from openwop_client import (
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateAnnotationRequest,
    CreateRunRequest,
    ForkRunRequest,
    OpenwopClient,
    PauseRunRequest,
    ResolveInterruptRequest,
    ResumeRunRequest,
    WopError,
)
from openwop_client.types import RunConfigurable

url, key = sys.argv[1:]
client = OpenwopClient(url, key)

capabilities = client.discovery_capabilities()
assert capabilities.protocolVersion.startswith("1."), capabilities
assert client.discovery_openapi()["openapi"].startswith("3.1")
assert client.workflows_get("three")["id"] == "three"

# Create, with everything the client can say; the same key again is the same run.
order = CreateRunRequest(
    workflowId="three",
    inputs={"who": "world"},
    configurable=RunConfigurable(recursionLimit=50),
    tags=["from-python"],
    metadata={"a": 1},
)
created = client.runs_create(order, idempotency_key="python-1")
again = client.runs_create(order, idempotency_key="python-1")
assert created == again, (created, again)

# Stream to the end, in every mode.
streamed = list(client.runs_events(created.runId))
assert streamed[0].type == "run.started" and streamed[-1].type == "run.completed", streamed
debug = list(client.runs_events(created.runId, stream_mode="debug"))
assert [event.sequence for event in debug] == list(range(8)), debug
assert {event.eventId for event in streamed} <= {event.eventId for event in debug}
values = list(client.runs_events(created.runId, stream_mode="values"))
assert values[-1].payload["status"] == "completed", values[-1]
assert list(client.runs_events(created.runId, stream_mode="messages")) == []
mixed = list(client.runs_events(created.runId, stream_mode=["updates", "messages"]))
assert [event.eventId for event in mixed] == [event.eventId for event in streamed]
buffered = list(client.runs_events(created.runId, stream_mode="debug", buffer_ms=200))
assert [event.eventId for event in buffered] == [event.eventId for event in debug]
rest = list(client.runs_events(created.runId, stream_mode="debug", last_event_id="5"))
assert [event.sequence for event in rest] == [6, 7], rest

# Poll and watch.
page = client.runs_poll_events(created.runId)
assert page.isComplete and page.events == debug, page
page = client.runs_poll_events(created.runId, last_sequence=5, timeout_seconds=1)
assert [event.sequence for event in page.events] == [6, 7], page
snapshot = client.runs_get(created.runId)
assert snapshot.status == "completed" and snapshot.tags == ["from-python"], snapshot

# Cancel.
waiting = client.runs_create(CreateRunRequest(workflowId="waits"))
assert client.runs_get(waiting.runId).status in ("pending", "running")
cancelled = client.runs_cancel(waiting.runId, CancelRunRequest(reason="enough"))
assert cancelled.status in ("cancelling", "cancelled"), cancelled
assert list(client.runs_events(waiting.runId))[-1].type == "run.cancelled"
assert client.runs_cancel(waiting.runId).status == "cancelled"

# Fork: a replay says what its source said, a branch goes on by itself; the same key is one fork.
def told(run_id):
    return [(e.sequence, e.type, e.nodeId, e.payload) for e in client.runs_poll_events(run_id).events]


replay = client.runs_fork(created.runId, ForkRunRequest(mode="replay", fromSeq=0), idempotency_key="f-1")
again = client.runs_fork(created.runId, ForkRunRequest(mode="replay", fromSeq=0), idempotency_key="f-1")
assert replay == again and replay.mode == "replay" and replay.sourceRunId == created.runId, replay
assert told(replay.runId) == told(created.runId)
same = client.runs_diff(created.runId, replay.runId)
assert same.divergedAtSeq is None and same.eventDiffs == [], same
overlay = {"tags": ["branched"]}
branch = client.runs_fork(
    created.runId, ForkRunRequest(mode="branch", fromSeq=3, runOptionsOverlay=overlay)
)
assert list(client.runs_events(branch.runId))[-1].type == "run.completed"
assert client.runs_get(branch.runId).tags == ["branched"]
assert told(branch.runId)[:3] == told(created.runId)[:3]
ancestry = client.runs_ancestry(created.runId)
assert ancestry.runId == created.runId and ancestry.parent is None, ancestry

# Annotate and bundle.
said = client.create_annotation(
    created.runId, CreateAnnotationRequest(signal={"kind": "rating", "rating": 5}, note="good")
)
assert said.actor["principalRef"] if isinstance(said.actor, dict) else said.actor.principalRef, said
assert [note.annotationId for note in client.list_annotations(created.runId)] == [said.annotationId]
bundle = client.runs_debug_bundle(created.runId)
assert bundle.bundleVersion == "1.0" and len(bundle.events) == 8 and not bundle.truncated, bundle
assert client.runs_debug_bundle(created.runId, max_events=2).truncated

# What is refused is refused in words the client understands.
def refused(status, code, call):
    try:
        call()
    except WopError as error:
        assert error.status == status, (error.status, error.raw_text)
        assert error.envelope is not None and error.envelope.error == code, error.raw_text
        return
    raise AssertionError(f"not refused: {code}")


refused(404, "run_not_found", lambda: client.runs_get("run-none"))
refused(404, "workflow_not_found", lambda: client.runs_create(CreateRunRequest(workflowId="none")))
other = CreateRunRequest(workflowId="waits")
refused(409, "idempotency_key_mismatch", lambda: client.runs_create(other, idempotency_key="python-1"))
refused(401, "invalid_token", lambda: OpenwopClient(url, "wrong").runs_get(created.runId))
refused(422, "fork_beyond_log", lambda: client.runs_fork(created.runId, ForkRunRequest(mode="replay", fromSeq=99)))
assert client.agents_list() is None

# What a run asks: answered by name, and by the token that its snapshot shows.
def until(run, status):
    while True:
        snapshot = client.runs_get(run)
        if snapshot.status == status:
            return snapshot
        assert snapshot.status in ("pending", "running"), snapshot
        seen = client.runs_poll_events(run).events[-1].sequence
        client.runs_poll_events(run, last_sequence=seen, timeout_seconds=5)


def token_of(run):
    asked = urllib.request.Request(f"{url}/v1/runs/{run}", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)["interrupt"]["interruptToken"]


accept = ResolveInterruptRequest(resumeValue={"action": "accept"})
first = client.runs_create(CreateRunRequest(workflowId="signs"))
assert until(first.runId, "waiting-approval").currentNodeId == "gate"
odd = ResolveInterruptRequest(resumeValue={"action": "explode"})
refused(400, "validation_error", lambda: client.interrupts_resolve_by_run(first.runId, "gate", odd))
resolved = client.interrupts_resolve_by_run(first.runId, "gate", accept, idempotency_key="answer-1")
again = client.interrupts_resolve_by_run(first.runId, "gate", accept, idempotency_key="answer-1")
assert resolved == again and resolved.nodeId == "gate", (resolved, again)
refused(409, "interrupt_already_resolved", lambda: client.interrupts_resolve_by_run(first.runId, "gate", accept))
assert list(client.runs_events(first.runId))[-1].type == "run.completed"

second = client.runs_create(CreateRunRequest(workflowId="signs"))
until(second.runId, "waiting-approval")
token = token_of(second.runId)
shown = client.interrupts_inspect_by_token(token)
assert shown.kind == "approval" and shown.data["actions"] == ["accept", "reject"], shown
assert client.interrupts_resolve_by_token(token, accept)["runId"] == second.runId
refused(409, "interrupt_already_resolved", lambda: client.interrupts_resolve_by_token(token, accept))
refused(404, "interrupt_not_found", lambda: client.interrupts_inspect_by_token("nothing"))

# Pause and resume; many are cancelled at once.
third = client.runs_create(CreateRunRequest(workflowId="waits"))
paused = client.runs_pause(third.runId, PauseRunRequest(drainPolicy="immediate", reason="lunch"))
assert paused.status == "paused" and paused.pausedAt, paused
assert client.runs_get(third.runId).status == "paused"
refused(409, "already_paused", lambda: client.runs_pause(third.runId))
resumed = client.runs_resume(third.runId, ResumeRunRequest(reason="back"))
assert resumed.status == "running" and resumed.resumedAt, resumed
refused(409, "not_paused", lambda: client.runs_resume(third.runId))
fourth = client.runs_create(CreateRunRequest(workflowId="waits"))
ids = [third.runId, fourth.runId, first.runId, "run-none"]
results = client.runs_bulk_cancel(BulkCancelRunsRequest(runIds=ids)).results
assert [result.ok for result in results] == [True, True, False, False], results
assert [result.error["error"] for result in results[2:]] == ["run_terminal", "not_found"], results

print("driven")
