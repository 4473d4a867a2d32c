"""A worker that does nothing with its tasks, and prints a line for each that it settled."""

import os
import sys

from runwright_worker import Queue, Worker


class Counted(Queue):
    def settle(self, ends):
        errors = super().settle(ends)
        for error in errors:
            status = "delivered" if error is None else "refused"
            print(f'{{"status": "{status}"}}', flush=True)
        return errors


url, slots = sys.argv[1:]
queue = Counted(url, os.environ["RUNWRIGHT_KEY"], "bench")
Worker(queue, lambda job: {}, slots=int(slots)).run()
