"""A worker that notes what it begins.

    python chaos.py URL NAME LEDGER
"""

import os
import signal
import sys
import time

from runwright_worker import Job, Queue, Worker

url, name, ledger = sys.argv[1:]


def handle(job: Job) -> dict:
    noted = os.open(ledger, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(noted, f"{job.assignment.request_id}\n".encode())
    os.close(noted)
    time.sleep(0.02)
    return {"fence": job.assignment.fence}


worker = Worker(Queue(url, "none", "q", patience=5), handle, name=name, slots=4, wait_ms=500)
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
print("listens", flush=True)
worker.run()
