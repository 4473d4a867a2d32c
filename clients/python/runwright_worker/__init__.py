"""Workers for Runwright queues, with the standard library alone.

A worker takes tasks from a queue over HTTP, sends heartbeats while it works, and reports a result
or a failure. ``Worker`` does all of that around a function of yours; ``Queue`` is the bare
contract, one method per endpoint.

    from runwright_worker import Job, Queue, Worker

    def handle(job: Job) -> dict:
        job.output("page %d\\n" % job.task["page"])
        return {"pages": 1}

    Worker(Queue("http://127.0.0.1:8080", key, "render"), handle).run()
"""

from .queue import (
    Assignment,
    Queue,
    QueueEvent,
    Refused,
    Run,
    Taken,
    Unreachable,
)
from .worker import Failure, Job, Stopped, Worker

__all__ = [
    "Assignment",
    "Failure",
    "Job",
    "Queue",
    "QueueEvent",
    "Refused",
    "Run",
    "Stopped",
    "Taken",
    "Unreachable",
    "Worker",
]
