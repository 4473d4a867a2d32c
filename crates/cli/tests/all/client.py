"""Drives a server with the official OpenWOP client: create, watch, poll, stream, cancel."""

import sys

from openwop_client import CreateRunRequest, CancelRunRequest, OpenwopClient, WopError
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
assert client.runs_ancestry(created.runId) is None
assert client.agents_list() is None

print("driven")
