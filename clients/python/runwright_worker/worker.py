"""A worker around a function: it takes tasks, sends their heartbeats, and reports their outcomes,
despite failures of the network."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
import uuid
from typing import Any, Callable, Literal, Mapping, Optional, Sequence

from .queue import Assignment, Queue, Refused, Run, Unreachable
from .reports import Reports

log = logging.getLogger("runwright_worker")

#: Maximum bytes of a chunk of output.
MAX_CHUNK = 65_536
#: Maximum bytes of the message of a failure.
MAX_MESSAGE = 4_096
#: Maximum bytes of the reason why a task waits.
MAX_REASON = 1_024


class Failure(Exception):
    """Raised by a function to report a failure with its own code.

    ``code`` is 1 to 64 of ``a-z 0-9 _``; ``retryable=False`` means that a retry cannot help.
    """

    def __init__(self, code: str, message: str, *, retryable: Optional[bool] = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class Stopped(Exception):
    """Raised by ``Job.check``: the work must end. Do not catch it."""


class Job:
    """A task, in the form for the function that works on it."""

    def __init__(self, queue: Queue, assignment: Assignment) -> None:
        self.assignment = assignment
        #: Set when the work must end: it was withdrawn or lost, or the worker shuts down.
        self.stopped = threading.Event()
        self._queue = queue
        self._lost: Optional[str] = None
        self._blocked: Optional[tuple[Literal["user", "system"], str]] = None
        self._beat = threading.Event()
        self._settled = threading.Event()
        self._seqs = {"stdout": 0, "stderr": 0}
        self._writing = threading.Lock()

    @property
    def task(self) -> Any:
        """The task: the node's inputs, or the metadata of a queued request."""
        return self.assignment.task

    @property
    def run(self) -> Optional[Run]:
        """Its run, if it has one."""
        return self.assignment.run

    @property
    def lost(self) -> Optional[str]:
        """The code of the reason why the task no longer belongs to this worker; ``None`` while it does."""
        return self._lost

    def check(self) -> None:
        """Raises ``Stopped`` once the work must end. Call it between two steps."""
        if self.stopped.is_set():
            raise Stopped(self._lost or "the worker shuts down")

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> bool:
        """Reports output, split into chunks. Output is a convenience: chunks that do not arrive are
        dropped. ``False`` if some of it was not kept."""
        kept = True
        with self._writing:
            for chunk in _chunks(text):
                seq = self._seqs[stream]
                self._seqs[stream] += 1
                try:
                    kept &= self._queue.output(self.assignment, stream, seq, chunk)
                except Refused as refused:
                    self._refused(refused)
                    kept = False
                except Unreachable as error:
                    log.warning("output was dropped: %s", error)
                    kept = False
        return kept

    def block_on(self, what: Literal["user", "system"], reason: str) -> None:
        """Reports with the next heartbeat that the work waits for a person or for repair. The reason is
        cut to 1024 bytes."""
        self._blocked = (what, _cut(reason, MAX_REASON))
        self._beat.set()

    def unblock(self) -> None:
        """Reports that the work continues."""
        self._blocked = None
        self._beat.set()

    def _refused(self, refused: Refused) -> None:
        if refused.is_lost:
            self._lost = refused.code
            self.stopped.set()
            self._beat.set()
        else:
            log.warning("refused: %s", refused)

    def _end(self) -> None:
        self._settled.set()
        self._beat.set()

    def _heartbeats(self) -> None:
        """Sends heartbeats until the task is settled or lost. After a whole timeout without a
        successful one the worker stops by itself: another may have the task."""
        pause = self.assignment.heartbeat_ms / 1000
        timeout = self.assignment.heartbeat_timeout_ms / 1000
        heard, wait = time.monotonic(), pause
        while True:
            self._beat.wait(wait)
            self._beat.clear()
            if self._settled.is_set() or self._lost:
                return
            blocked = self._blocked
            blocked_on, reason = blocked or (None, None)
            try:
                self._queue.heartbeat(self.assignment, blocked_on=blocked_on, reason=reason)
                heard, wait = time.monotonic(), pause
                continue
            except Refused as refused:
                self._refused(refused)
                wait = self._say_less(blocked, pause)
            except Unreachable as error:
                log.warning("a heartbeat was not answered: %s", error)
                wait = min(1.0, pause)
            except Exception as error:
                log.error("what the task waits for was not sent: %s", _told(error))
                wait = self._say_less(blocked, pause)
            if not self._lost and time.monotonic() - heard >= timeout:
                self._lost = "no_heartbeat"
                self.stopped.set()

    def _say_less(self, blocked: Optional[tuple], pause: float) -> float:
        """Drops a rejected reason, so that a plain heartbeat can be sent at once. Returns the delay
        before it."""
        if blocked is None:
            return pause
        if self._blocked is blocked:
            self._blocked = None
        return 0.0


class Worker:
    """Takes tasks of a queue and lets a function work on them, ``slots`` at a time.

    The function receives a ``Job`` and returns the outputs, an object for JSON. It raises
    ``Failure`` to report a failure; any other exception, ``SystemExit`` among them, is reported as
    ``worker_error``. Outputs that are not valid JSON, or that the server rejects, fail as
    ``report_refused``. When ``job.stopped`` is set it should end soon; its outputs are then not
    reported if the task is lost.
    """

    def __init__(
        self,
        queue: Queue,
        handle: Callable[[Job], Optional[Mapping[str, Any]]],
        *,
        name: Optional[str] = None,
        slots: int = 1,
        wait_ms: int = 5_000,
        grace: float = 10.0,
    ) -> None:
        if not 1 <= slots <= 64:
            raise ValueError("slots must be 1 to 64")
        self.queue = queue
        #: Unique among the workers of the queue.
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._handle = handle
        self._slots = slots
        self._wait_ms = wait_ms
        self._grace = grace
        self._reports = Reports(queue)
        self._stop = threading.Event()
        self._free = threading.Semaphore(slots)
        self._jobs: dict[str, Job] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Takes no further tasks once the current poll has ended, gives running tasks the grace period
        to end, then releases them. May be called from a signal handler or another thread; ``run``
        returns at the end."""
        self._stop.set()

    def run(self) -> None:
        """Works until it is stopped. Raises if the credential is rejected."""
        try:
            while not self._stop.is_set():
                free = self._claim()
                if free == 0:
                    continue
                begun: Sequence[Assignment] = ()
                try:
                    begun = self._may_begin(self._take(free))
                finally:
                    self._give_back(free - len(begun))
                for assignment in begun:
                    self._begin(assignment)
                if not begun and self._wait_ms == 0:
                    self._stop.wait(0.2)
        finally:
            self._shut_down()

    def _take(self, free: int) -> Sequence[Assignment]:
        """Takes tasks, under one key until there is an answer: assignments of a lost answer are
        returned again. Once the worker is stopped they are released."""
        key, attempt = uuid.uuid4().hex, 0
        while not self._stop.is_set():
            try:
                taken = self.queue.take(self.name, max=free, wait_ms=self._wait_ms, key=key)
            except Unreachable as error:
                log.warning("no task could be taken: %s", error)
                attempt += 1
                self._stop.wait(_pause(attempt, error))
                continue
            if not self._stop.is_set():
                return taken.assignments
        self._late("the last take", lambda: self.queue.release_take(self.name, key))
        return ()

    def _may_begin(self, taken: Sequence[Assignment]) -> Sequence[Assignment]:
        """Reports the start of offered tasks; returns the tasks that may be worked on."""
        begun = [one for one in taken if one.begin_ms is None]
        offered = [one for one in taken if one.begin_ms is not None]
        attempt = 0
        while offered:
            later = []
            try:
                for one, error in zip(offered, self.queue.begin(offered)):
                    if error is None:
                        begun.append(one)
                    elif isinstance(error, Unreachable):
                        later.append(one)
                    else:
                        log.warning("a task was not begun: %s", error)
            except Unreachable as error:
                log.warning("a begin request was not answered: %s", error)
                later = offered
            offered = later
            attempt += 1
            if offered and self._stop.wait(min(1.0, 0.1 * attempt)):
                ends = [(one, {"release": True}) for one in offered]
                self._late("what was offered", lambda: self.queue.settle(ends))
                break
        return begun

    def _late(self, what: str, say: Callable[[], object]) -> None:
        """Repeats a request until there is an answer, within the time for a stop."""
        until = time.monotonic() + self._grace
        while True:
            try:
                say()
                return
            except Unreachable as error:
                if time.monotonic() >= until:
                    log.warning("%s was not returned: %s", what, error)
                    return
                time.sleep(0.2)
            except Refused as refused:
                log.warning("%s was not returned: %s", what, refused)
                return

    def _claim(self) -> int:
        """Claims all free slots, waiting for one; returns 0 when the worker stops."""
        while not self._free.acquire(timeout=0.2):
            if self._stop.is_set():
                return 0
        free = 1
        while free < self._slots and self._free.acquire(blocking=False):
            free += 1
        return free

    def _give_back(self, slots: int) -> None:
        for _ in range(slots):
            self._free.release()

    def _begin(self, assignment: Assignment) -> None:
        job = Job(self.queue, assignment)
        thread = threading.Thread(
            target=self._work, args=(job,), name=assignment.assignment_id, daemon=True
        )
        with self._lock:
            self._jobs[assignment.assignment_id] = job
            self._threads.add(thread)
        thread.start()

    def _work(self, job: Job) -> None:
        beats = threading.Thread(target=job._heartbeats, name="heartbeats", daemon=True)
        beats.start()
        try:
            self._settle(job, self._outcome(job))
        finally:
            job._end()
            beats.join()
            with self._lock:
                self._jobs.pop(job.assignment.assignment_id, None)
                self._threads.discard(threading.current_thread())
            self._free.release()

    def _outcome(self, job: Job) -> Mapping[str, Any]:
        """Calls the function; returns the end to report."""
        assignment = job.assignment
        try:
            return {"outputs": self._handle(job) or {}}
        except Stopped:
            return {"release": True}
        except Failure as failure:
            code, message, retryable = failure.code, failure.message, failure.retryable
        except BaseException as error:  # whatever a function raises, sys.exit() too, is its failure
            log.error("the task %s failed", assignment.assignment_id, exc_info=True)
            code, message, retryable = "worker_error", _told(error), None
        return _failure(code, message, retryable)

    def _settle(self, job: Job, end: Mapping[str, Any]) -> None:
        """Reports until there is an answer: each report may be sent again."""
        attempt, was_refused = 0, False
        while job.lost is None:
            attempt += 1
            try:
                self._reports.tell(job.assignment, end)
            except Unreachable as error:
                log.warning("a report was not answered: %s", error)
                job._settled.wait(_pause(attempt, error))
                continue
            except Refused as refused:
                if refused.is_lost:
                    job._refused(refused)
                    return
                why = str(refused)
            except Exception as error:  # it cannot be written as JSON
                why = _told(error)
            else:
                return
            log.error("a report was refused: %s", why)
            if was_refused:
                return
            was_refused = True
            # A rejected report must not leave the task open: report that as a failure.
            end = _failure("report_refused", why, False)

    def _shut_down(self) -> None:
        deadline = time.monotonic() + self._grace
        self._join(deadline)
        with self._lock:
            late = list(self._jobs.values())
        for job in late:
            job.stopped.set()
        self._join(time.monotonic() + self._grace)
        with self._lock:
            late = list(self._jobs.values())
        for job in late:
            # Its function does not end. Its later reports have an old fence and are rejected.
            job._lost = job._lost or "released"
            job._end()
            try:
                self.queue.release(job.assignment)
            except (Refused, Unreachable) as error:
                log.warning("a task was not returned: %s", error)

    def _join(self, deadline: float) -> None:
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _pause(attempt: int, error: Unreachable) -> float:
    """Seconds before the next try: the server's request, or an exponential backoff with jitter, so that
    workers do not return all at once."""
    if error.retry_after is not None:
        return error.retry_after
    return min(30.0, 0.25 * 2 ** min(attempt, 7)) * random.uniform(0.5, 1.0)


def _failure(code: str, message: str, retryable: Optional[bool]) -> Mapping[str, Any]:
    error: dict[str, Any] = {"code": code, "message": _cut(message)}
    if retryable is not None:
        error["retryable"] = retryable
    return {"error": error}


def _told(error: BaseException) -> str:
    """The text of an exception, even if its class raises another one."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _cut(message: str, most: int = MAX_MESSAGE) -> str:
    """A message cut to the limit, between characters."""
    return str(message).encode(errors="replace")[:most].decode(errors="ignore")


def _chunks(text: str) -> list[str]:
    """The text in pieces of at most ``MAX_CHUNK`` bytes, cut between characters."""
    data = text.encode(errors="replace")
    chunks = []
    while data:
        end = min(MAX_CHUNK, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        chunks.append(data[:end].decode())
        data = data[end:]
    return chunks
