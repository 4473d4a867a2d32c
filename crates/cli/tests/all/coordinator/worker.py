"""Lets the worker library for Python work against a server.

    python worker.py URL KEY EXAMPLE

The server has the workflow `counting`, whose one node gives its inputs to the queue `words`, and
`waiting`, whose one node gives its to the queue `slow`.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime, timezone

from runwright_worker import Failure, Job, Queue, Refused, Stopped, Unreachable, Worker

URL, KEY, EXAMPLE = sys.argv[1:]
#: Nothing takes longer, in seconds, unless it hangs.
DEADLINE = 60


def api(method, path, body=None):
    request = urllib.request.Request(
        URL + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        return json.load(answer)


def put(queue, request, task):
    event = queue.command(
        {
            "command": "QueueDispatch",
            "request_id": request,
            "target": queue.name,
            "metadata": task,
        }
    )
    assert event["event"] == "DispatchQueued", event


def take(queue, worker="w"):
    """The next assignment, waited for by long polls."""
    for _ in range(10):
        taken = queue.take(worker, wait_ms=6_000)
        if taken.assignments:
            return taken.assignments[0]
    raise AssertionError(f"nothing was handed out: {taken}")


def refused(code, call):
    try:
        call()
    except Refused as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"{code} was expected")


def events_until(queue, is_last):
    """Names of the queue's events, up to one that is waited for."""
    names, after = [], None
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        events, after, _ = queue.events(after, wait_ms=3_000)
        for event in events:
            names.append(event.event["event"])
            if is_last(event.event):
                return names
    raise AssertionError(f"the event did not come: {names}")


def ended(request):
    ends = ("DispatchDelivered", "DispatchFailed")
    return lambda event: event["event"] in ends and event["request_id"] == request


def bare_contract():
    queue = Queue(URL, KEY, "bare")
    # Somebody waits already when the task comes.
    waiting = []
    poll = threading.Thread(target=lambda: waiting.append(take(queue)))
    poll.start()
    put(queue, "one", {"page": 3})
    poll.join(DEADLINE)
    (one,) = waiting
    assert (one.request_id, one.task, one.run, one.fence) == ("one", {"page": 3}, None, 1), one
    assert queue.heartbeat(one) > 0
    queue.heartbeat(one, blocked_on="user", reason="which colour?")
    assert queue.output(one, "stdout", 0, "page 3\n") is False
    assert queue.result(one, {"pages": 3}) is False
    assert queue.result(one, {"pages": 3}) is True
    refused("assignment_settled", lambda: queue.failure(one, "late", "too late"))

    put(queue, "two", None)
    first = take(queue)
    queue.release(first)
    second = take(queue, "other")
    assert second.request_id == "two" and second.fence > first.fence, (first, second)
    assert refused("assignment_released", lambda: queue.result(first, {})).is_lost
    assert queue.failure(second, "no_space", "the disk is full", retryable=False) is False
    names = events_until(queue, ended("two"))
    for name in ("worker.assigned", "run.blocked_on_user", "DispatchDelivered"):
        assert name in names, names
    assert queue.snapshot()["backlog"]["failed"] == 1
    assert queue.readiness() == {"ready": True, "reasons": []}
    assert {one["worker"] for one in queue.workers()["workers"]} == {"w", "other"}
    refused("duplicate_request", lambda: put(queue, "one", None))
    stranger = Queue(URL, "nobody's key", "bare")
    assert refused("invalid_token", lambda: stranger.take("w")).status == 401


class Mute(Exception):
    """Says nothing of itself."""

    def __str__(self):
        raise ValueError("no text")


class Shaky(Queue):
    """A queue whose every second answer to a report is lost on its way."""

    lost = 0
    asked = 0

    def _ask(self, method, path, body=None, wait_ms=0):
        answer = super()._ask(method, path, body, wait_ms)
        if path.endswith("/settle"):
            self.asked += 1
            if self.asked % 2 == 0:
                self.lost += 1
                raise Unreachable("the answer was lost")
        return answer


def worker_around_a_function():
    queue = Shaky(URL, KEY, "tasks")
    seen = []

    def handle(job: Job):
        seen.append(job.task)
        if job.task == "fail":
            raise Failure("out_of_ink", "there is no ink", retryable=False)
        if job.task == "raise":
            raise KeyError("ink")
        if job.task == "too much":
            return {"text": "x" * (3 << 19)}
        if job.task == "no JSON":
            return {"at": datetime.now(timezone.utc)}
        if job.task == "a circle":
            circle = {}
            circle["again"] = circle
            return circle
        if job.task == "no object":
            return ["a list"]
        if job.task == "exit":
            sys.exit("no more")
        if job.task == "mute":
            raise Mute
        job.output("é" * 50_000)
        return {"done": job.task}

    bad = ["fail", "raise", "too much", "no JSON", "a circle", "no object", "exit", "mute"]
    tasks = [*bad, *(f"task {n}" for n in range(12))]
    for number, task in enumerate(tasks):
        put(queue, f"r{number}", task)
    worker = Worker(queue, handle, slots=3, wait_ms=2_000)
    running = threading.Thread(target=worker.run)
    running.start()
    reader = Queue(URL, KEY, "tasks")
    names = []
    settled = {}
    after = None
    while len(settled) < len(tasks):
        events, after, _ = reader.events(after, limit=1_000, wait_ms=3_000)
        for event in (one.event for one in events):
            names.append(event["event"])
            if event["event"] in ("DispatchDelivered", "DispatchFailed"):
                assert event["request_id"] not in settled, event
                settled[event["request_id"]] = event.get("reason")
    worker.stop()
    running.join(DEADLINE)
    assert not running.is_alive()
    assert sorted(map(str, seen)) == sorted(tasks), seen
    assert queue.lost > 0
    failed = {request: reason for request, reason in settled.items() if reason}
    assert failed == {
        "r0": "out_of_ink",
        "r1": "worker_error",
        "r2": "report_refused",
        "r3": "report_refused",
        "r4": "report_refused",
        "r5": "report_refused",
        "r6": "worker_error",
        "r7": "worker_error",
    }, failed


class Noting(Queue):
    """Notes what heartbeats said that were taken in, and tells that one was that said nothing."""

    def __init__(self, *args):
        super().__init__(*args)
        self.said = []
        self.plain = threading.Event()

    def heartbeat(self, assignment, *, blocked_on=None, reason=None):
        expires = super().heartbeat(assignment, blocked_on=blocked_on, reason=reason)
        self.said.append((blocked_on, reason))
        if blocked_on is None:
            self.plain.set()
        return expires


def what_cannot_be_said_takes_no_task_away():
    queue = Noting(URL, KEY, "reasons")

    def is_blocked(event):
        return event["event"] == "run.blocked_on_user"

    def handle(job: Job):
        # Longer than a reason may be: its beginning is said.
        job.block_on("user", "é" * 2_000)
        events_until(Queue(URL, KEY, "reasons"), is_blocked)
        queue.plain.clear()
        # Nothing that the server has a word for: the heartbeat is sent without it, and its
        # worker is not missed.
        began = time.monotonic()
        job.block_on("nobody", "x")
        assert queue.plain.wait(DEADLINE)
        early = time.monotonic() - began < job.assignment.heartbeat_timeout_ms / 1000
        return {"early": early, "lost": job.lost}

    put(queue, "said", None)
    results = []
    settle = queue.settle

    def noted(ends):
        results.extend(end["outputs"] for _, end in ends)
        return settle(ends)

    queue.settle = noted
    worker = Worker(queue, handle, wait_ms=2_000)
    running = threading.Thread(target=worker.run)
    running.start()
    names = events_until(Queue(URL, KEY, "reasons"), ended("said"))
    worker.stop()
    running.join(DEADLINE)
    assert names[-1] == "DispatchDelivered" and "worker.stalled" not in names, names
    assert results == [{"early": True, "lost": None}], results
    assert queue.said[0] == ("user", "é" * 512), queue.said


def withdrawn_work_is_stopped():
    queue = Queue(URL, KEY, "slow")
    begun, over = threading.Event(), []

    def handle(job: Job):
        begun.set()
        job.stopped.wait(DEADLINE)
        over.append(job.lost)
        job.check()

    worker = Worker(queue, handle, wait_ms=2_000)
    running = threading.Thread(target=worker.run)
    running.start()
    run = api("POST", "/v1/runs", {"workflowId": "waiting"})["runId"]
    assert begun.wait(DEADLINE)
    api("POST", f"/v1/runs/{run}/cancel", {})
    events_until(queue, lambda event: event["event"] in ("DispatchDelivered", "DispatchFailed"))
    worker.stop()
    running.join(DEADLINE)
    assert over == ["assignment_withdrawn"], over


def what_is_not_done_is_given_back():
    queue = Queue(URL, KEY, "back")
    begun = threading.Event()

    def handle(job: Job):
        begun.set()
        job.stopped.wait(DEADLINE)
        raise Stopped

    put(queue, "later", None)
    worker = Worker(queue, handle, wait_ms=2_000, grace=0.1)
    running = threading.Thread(target=worker.run)
    running.start()
    assert begun.wait(DEADLINE)
    worker.stop()
    running.join(DEADLINE)
    assert take(queue, "next").request_id == "later"


def example_counts():
    process = subprocess.Popen(
        [sys.executable, EXAMPLE, URL, "words"], env={**os.environ, "RUNWRIGHT_KEY": KEY}
    )
    try:
        run = api("POST", "/v1/runs", {"workflowId": "counting"})["runId"]
        queue = Queue(URL, KEY, "words")
        names = events_until(queue, lambda event: event["event"] == "DispatchDelivered")
        assert "worker.assigned" in names, names
        print("run", run)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0


bare_contract()
worker_around_a_function()
what_cannot_be_said_takes_no_task_away()
withdrawn_work_is_stopped()
what_is_not_done_is_given_back()
example_counts()
print("driven")
