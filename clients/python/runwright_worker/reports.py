"""Reports ends of tasks to the queue: concurrent ones share a request."""

from __future__ import annotations

import json
import threading
from typing import Any, Mapping, Optional, Sequence

from .queue import Assignment, Queue, Refused, Unreachable

#: Maximum ends of one request, and their bytes.
MAX_TOGETHER = 64
MAX_BYTES = 1 << 20


class _Waiting:
    def __init__(self, assignment: Assignment, end: Mapping[str, Any]) -> None:
        if "outputs" in end:
            end = {"outputs": dict(end["outputs"])}
        self.assignment = assignment
        self.end = end
        self.bytes = len(json.dumps(end).encode())
        self.error: Optional[BaseException] = None
        self.is_told = False


class Reports:
    """Reports ends, one request at a time. The first waiting thread sends all pending ends.
    Thread-safe."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        self._is_sending = False

    def tell(self, assignment: Assignment, end: Mapping[str, Any]) -> None:
        """Reports one. Raises if it is rejected, its outcome is unknown, or it is not valid JSON."""
        mine = _Waiting(assignment, end)
        with self._changed:
            self._waiting.append(mine)
            while not mine.is_told:
                if self._is_sending:
                    self._changed.wait()
                    continue
                self._is_sending = True
                batch = self._next()
                self._changed.release()
                try:
                    self._settle(batch)
                finally:
                    self._changed.acquire()
                    for one in batch:
                        one.is_told = True
                    self._is_sending = False
                    self._changed.notify_all()
        if mine.error is not None:
            raise mine.error

    def _next(self) -> Sequence[_Waiting]:
        count, size = 0, 0
        for one in self._waiting:
            size += one.bytes
            if count and (count == MAX_TOGETHER or size > MAX_BYTES):
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _settle(self, batch: Sequence[_Waiting]) -> None:
        try:
            errors = self._queue.settle([(one.assignment, one.end) for one in batch])
        except Refused as refused:
            if len(batch) > 1:
                # One end exceeds the size limit of a request. Reject only that one.
                for one in batch:
                    self._settle([one])
                return
            batch[0].error = refused
        except Exception as error:
            for one in batch:
                one.error = error if isinstance(error, Unreachable) else Unreachable(str(error))
        else:
            for one, error in zip(batch, errors):
                one.error = error
