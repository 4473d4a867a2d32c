/** Reports ends of tasks to the queue: concurrent ones share a request. */
import { Refused, type Assignment, type End, type Queue } from "./queue.js";

/** Maximum ends of one request, and their bytes. */
const MAX_TOGETHER = 64;
const MAX_BYTES = 1 << 20;

interface Waiting {
  assignment: Assignment;
  end: End;
  bytes: number;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** Reports ends, one request at a time. */
export class Reports {
  readonly #queue: Queue;
  #waiting: Waiting[] = [];
  #isSending = false;

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /** Reports one. Rejects if the server does, its outcome is unknown, or it is not valid JSON. */
  tell(assignment: Assignment, end: End): Promise<void> {
    return new Promise((resolve, reject) => {
      const bytes = new TextEncoder().encode(JSON.stringify(end)).length;
      this.#waiting.push({ assignment, end, bytes, resolve, reject });
      if (!this.#isSending) {
        void this.#send();
      }
    });
  }

  async #send(): Promise<void> {
    this.#isSending = true;
    // Ends of the same moment join the batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      await this.#settle(this.#next());
    }
    this.#isSending = false;
  }

  #next(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const one of this.#waiting) {
      bytes += one.bytes;
      if (count > 0 && (count === MAX_TOGETHER || bytes > MAX_BYTES)) {
        break;
      }
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #settle(batch: Waiting[]): Promise<void> {
    try {
      const refused = await this.#queue.settle(batch.map(({ assignment, end }) => [assignment, end]));
      batch.forEach((one, place) => {
        const error = refused[place];
        if (error === undefined) {
          one.resolve();
        } else {
          one.reject(error);
        }
      });
    } catch (error) {
      if (error instanceof Refused && batch.length > 1) {
        // One end exceeds the size limit of a request. Reject only that one.
        for (const one of batch) {
          await this.#settle([one]);
        }
        return;
      }
      for (const one of batch) {
        one.reject(error);
      }
    }
  }
}
