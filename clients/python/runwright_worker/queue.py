"""The HTTP contract of a queue, one method per endpoint. Each call is one request without retries;
the caller decides about those (``Worker`` does)."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Literal, Mapping, Optional, Sequence

#: Codes that end the work on an assignment: its result will be rejected.
LOST = frozenset(
    {
        "assignment_not_found",
        "assignment_lost",
        "assignment_withdrawn",
        "assignment_released",
        "assignment_settled",
    }
)

#: Codes of one of several assignments that ask for a retry.
LATER = frozenset({"service_unavailable", "coordinator_full", "rate_limited", "internal_error"})

#: Timeout of an answer in addition to the requested wait, in seconds.
PATIENCE = 15.0

#: The longest body that a server accepts, in bytes. It does not read a longer one to its end, so the
#: client may see a broken connection instead of the refusal.
MAX_BODY = 2 << 20

#: The longest answer that is read, in bytes.
MAX_ANSWER = 64 << 20


class Refused(Exception):
    """The server rejected the request.

    ``code`` is stable, for programs; ``status`` is that of HTTP; ``details`` are the server's.
    """

    def __init__(self, status: int, code: str, message: str, details: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details

    @property
    def is_lost(self) -> bool:
        """Whether the assignment no longer belongs to this worker: stop the work."""
        return self.code in LOST


class Unreachable(Exception):
    """No answer, or one that asks for a retry: the outcome of the request is unknown.

    ``retry_after`` is the wait in seconds that the server requested, if any.
    """

    def __init__(self, message: str, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Run:
    """The attempt of a node that an assignment belongs to."""

    run_id: str
    node_id: str
    visit: int
    attempt: int


@dataclass(frozen=True)
class Assignment:
    """A task assigned to this worker. ``fence`` grows with each assignment of the task; reports with
    an older one are rejected."""

    assignment_id: str
    request_id: str
    queue: str
    worker: str
    fence: int
    assigned_at: str
    heartbeat_ms: int
    heartbeat_timeout_ms: int
    repeat: Literal["repeatable", "once"]
    task: Any
    run: Optional[Run]
    #: The task is only offered: call ``begin`` within this many milliseconds, before the work
    #: starts.
    begin_ms: Optional[int] = None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Assignment":
        run = body.get("run")
        return cls(
            assignment_id=body["assignment_id"],
            request_id=body["request_id"],
            queue=body["queue"],
            worker=body["worker"],
            fence=body["fence"],
            assigned_at=body["assigned_at"],
            heartbeat_ms=body["heartbeat_ms"],
            heartbeat_timeout_ms=body["heartbeat_timeout_ms"],
            repeat=body["repeat"],
            task=body.get("task"),
            run=None
            if run is None
            else Run(run["run_id"], run["node_id"], run["visit"], run["attempt"]),
            begin_ms=body.get("begin_ms"),
        )


@dataclass(frozen=True)
class Taken:
    """The result of a take. Without assignments, ``reasons`` may explain why none were made."""

    assignments: Sequence[Assignment]
    ready: bool
    reasons: Sequence[str]


@dataclass(frozen=True)
class QueueEvent:
    """An event of the queue's log; ``id`` is the cursor for the next page."""

    id: str
    at: str
    event: Mapping[str, Any]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Never sends a credential to a redirect target."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Queue:
    """A queue of a server. ``key`` is an API key with the scope ``workers:take``, and with
    ``coordinator:read`` or ``coordinator:write`` for the methods that need these. Thread-safe."""

    def __init__(self, server: str, key: str, queue: str, *, patience: float = PATIENCE) -> None:
        parts = urllib.parse.urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("the server must be an address such as http://127.0.0.1:8080")
        self.name = queue
        self._base = server.rstrip("/") + "/v1/coordinator/" + urllib.parse.quote(queue, safe="")
        self._key = key
        self._patience = patience
        self._opener = urllib.request.build_opener(_NoRedirects)

    def take(
        self, worker: str, *, max: int = 1, wait_ms: int = 0, key: Optional[str] = None
    ) -> Taken:
        """Requests up to ``max`` tasks, and waits up to ``wait_ms`` (at most 25000) for one. A repeated
        ``key`` returns the same tasks. A task that must not be repeated is then only offered."""
        asked: dict[str, Any] = {"worker": worker, "max": max, "wait_ms": wait_ms}
        if key is not None:
            asked["key"] = key
        body = self._ask("POST", "/take", asked, wait_ms)
        assignments = [Assignment.of(one) for one in body["assignments"]]
        return Taken(assignments, body["ready"], body["reasons"])

    def release_take(self, worker: str, key: str) -> None:
        """Releases the assignments under the key of a take whose answer was not read; no further ones
        are made under it."""
        self._ask("POST", "/release", {"worker": worker, "key": key})

    def begin(self, assignments: Sequence[Assignment]) -> Sequence[Optional[Exception]]:
        """Reports the start of offered tasks. Returns for each the error that forbids it."""
        return self._each("/begin", [(assignment, {}) for assignment in assignments])

    def settle(
        self, ends: Sequence[tuple[Assignment, Mapping[str, Any]]]
    ) -> Sequence[Optional[Exception]]:
        """Reports the ends of several tasks, each ``{"outputs": …}``, ``{"error": …}`` or
        ``{"release": True}``. Returns for each the error of a rejected one."""
        return self._each("/settle", ends)

    def heartbeat(
        self,
        assignment: Assignment,
        *,
        blocked_on: Optional[Literal["user", "system"]] = None,
        reason: Optional[str] = None,
    ) -> int:
        """Sends a heartbeat; returns the milliseconds until the next one is overdue."""
        body = self._of(
            assignment, "heartbeat", {"blocked_on": blocked_on, "reason": reason}
        )
        return int(body["expires_in_ms"])

    def output(
        self, assignment: Assignment, stream: Literal["stdout", "stderr"], seq: int, chunk: str
    ) -> bool:
        """Reports a chunk of at most 65536 bytes. ``False`` if it does not belong to a run."""
        body = self._of(assignment, "output", {"stream": stream, "seq": seq, "chunk": chunk})
        return bool(body["kept"])

    def result(self, assignment: Assignment, outputs: Mapping[str, Any]) -> bool:
        """Reports a result. ``True`` if it was reported before: then nothing changed."""
        return bool(self._of(assignment, "result", {"outputs": dict(outputs)})["repeated"])

    def failure(
        self,
        assignment: Assignment,
        code: str,
        message: str,
        *,
        retryable: Optional[bool] = None,
    ) -> bool:
        """Reports a failure. ``True`` if it was reported before."""
        error: dict[str, Any] = {"code": code, "message": message}
        if retryable is not None:
            error["retryable"] = retryable
        return bool(self._of(assignment, "failure", {"error": error})["repeated"])

    def release(self, assignment: Assignment) -> None:
        """Releases a task without a result."""
        self._of(assignment, "release", {})

    def snapshot(self) -> Mapping[str, Any]:
        """The queue's snapshot, in the form of the runtime contract."""
        return self._ask("GET", "/snapshot")

    def readiness(self) -> Mapping[str, Any]:
        """Whether tasks are assigned, and the reasons if not."""
        return self._ask("GET", "/readiness")

    def workers(self) -> Mapping[str, Any]:
        """The workers with tasks, and their assignments."""
        return self._ask("GET", "/workers")

    def command(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        """Sends the queue a command of the runtime contract; returns its event."""
        return self._ask("POST", "/commands", dict(command))

    def events(
        self, after: Optional[str] = None, *, limit: int = 100, wait_ms: int = 0
    ) -> tuple[Sequence[QueueEvent], Optional[str], bool]:
        """Events after one, the cursor for the next page, and whether the list is complete for now."""
        query: dict[str, Any] = {"limit": limit, "wait_ms": wait_ms}
        if after is not None:
            query["after"] = after
        body = self._ask("GET", "/events?" + urllib.parse.urlencode(query), None, wait_ms)
        events = [QueueEvent(one["id"], one["at"], one["event"]) for one in body["events"]]
        return events, body.get("next"), body["complete"]

    def _each(
        self, path: str, said: Sequence[tuple[Assignment, Mapping[str, Any]]]
    ) -> Sequence[Optional[Exception]]:
        each = [
            {"assignment_id": one.assignment_id, "fence": one.fence, **what} for one, what in said
        ]
        answers = self._ask("POST", path, {"assignments": each})["assignments"]
        return [self._one(answer) for answer in answers]

    @staticmethod
    def _one(answer: Mapping[str, Any]) -> Optional[Exception]:
        code = answer.get("error")
        if code is None:
            return None
        message = _why(str(answer.get("message", "")), answer.get("details"))
        if code in LATER:
            return Unreachable(f"{code}: {message}")
        return Refused(409 if code in LOST else 400, code, message)

    def _of(self, assignment: Assignment, what: str, body: dict[str, Any]) -> Mapping[str, Any]:
        place = urllib.parse.quote(assignment.assignment_id, safe="")
        return self._ask(
            "POST", f"/assignments/{place}/{what}", {"fence": assignment.fence, **body}
        )

    def _ask(
        self, method: str, path: str, body: Any = None, wait_ms: int = 0
    ) -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
            if len(data) > MAX_BODY:
                raise Refused(413, "payload_too_large", f"no server takes {len(data)} bytes")
        request = urllib.request.Request(self._base + path, data, headers, method=method)
        timeout = wait_ms / 1000 + self._patience
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return json.loads(answer.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def _refusal(error: urllib.error.HTTPError) -> Exception:
        with error:
            try:
                envelope = json.loads(error.read(MAX_ANSWER))
                code, message = str(envelope["error"]), str(envelope["message"])
                details = envelope.get("details")
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                code, message, details = "unknown", f"HTTP {error.code}", None
        message = _why(message, details)
        if error.code == 429 or error.code >= 500:
            wait = error.headers.get("Retry-After", "")
            return Unreachable(f"{code}: {message}", float(wait) if wait.isdigit() else None)
        return Refused(error.code, code, message, details)


def _why(message: str, details: Any) -> str:
    """The message, with the place and text of each error in the details."""
    errors = details.get("errors") if isinstance(details, dict) else None
    listed = [one for one in errors or [] if isinstance(one, dict)]
    return message + "".join(f"; {one.get('path', '')}: {one.get('message', '')}" for one in listed)
