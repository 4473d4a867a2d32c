"""A worker that counts the words of texts.

    RUNWRIGHT_KEY=… python examples/wordcount.py http://127.0.0.1:8080 words

A task is {"text": "…"}; the result {"words": 3}. SIGTERM and Ctrl-C end it: running tasks are
finished, or released.
"""

import logging
import os
import signal
import sys

from runwright_worker import Failure, Job, Queue, Refused, Worker


def count(job: Job) -> dict[str, int]:
    text = job.task.get("text") if isinstance(job.task, dict) else None
    if not isinstance(text, str):
        raise Failure("no_text", "the task has no text", retryable=False)
    words = 0
    for line in text.splitlines():
        job.check()
        words += len(line.split())
        job.output(f"{words} words so far\n")
    return {"words": words}


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    if len(sys.argv) != 3:
        sys.exit("usage: RUNWRIGHT_KEY=… wordcount.py SERVER QUEUE")
    server, queue = sys.argv[1:]
    worker = Worker(Queue(server, os.environ.get("RUNWRIGHT_KEY", ""), queue), count, slots=4)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    try:
        worker.run()
    except Refused as refused:
        sys.exit(str(refused))


if __name__ == "__main__":
    main()
