/**
 * A worker around a function: it takes tasks, sends their heartbeats, and reports their outcomes,
 * despite failures of the network.
 */
import {
  Queue,
  Refused,
  Unreachable,
  type Assignment,
  type Blocked,
  type End,
  type Json,
  type JsonObject,
  type Run,
  type Stream,
} from "./queue.js";
import { Reports } from "./reports.js";

/** Maximum bytes of a chunk of output. */
const MAX_CHUNK = 65_536;
/** Maximum bytes of the message of a failure. */
const MAX_MESSAGE = 4_096;
/** Maximum bytes of the reason why a task waits. */
const MAX_REASON = 1_024;

/** Thrown by a function to report a failure with its own code. */
export class Failure extends Error {
  override readonly name = "Failure";

  constructor(
    /** 1 to 64 of `a-z 0-9 _`. */
    readonly code: string,
    message: string,
    /** `false` means that a retry cannot help. */
    readonly retryable?: boolean,
  ) {
    super(message);
  }
}

/** The reason of a job's aborted signal: the work must end. */
export class Stopped extends Error {
  override readonly name = "Stopped";
}

/** A task, in the form for the function that works on it. */
export interface Job {
  /** The assignment. */
  readonly assignment: Assignment;
  /** The task: the node's inputs, or the metadata of a queued request. */
  readonly task: Json;
  /** Its run, if it has one. */
  readonly run: Run | null;
  /**
   * Aborted, with a `Stopped`, when the work must end: it was withdrawn or lost, or the worker shuts
   * down. Pass it to functions that accept a signal.
   */
  readonly signal: AbortSignal;
  /** The code of the reason why the task no longer belongs to this worker; undefined while it does. */
  readonly lost: string | undefined;
  /**
   * Reports output, split into chunks. Output is a convenience: chunks that do not arrive are
   * dropped. `false` if some of it was not kept.
   */
  output(text: string, stream?: Stream): Promise<boolean>;
  /**
   * Reports with the next heartbeat that the work waits for a person or for repair. The reason is
   * cut to 1024 bytes.
   */
  blockOn(what: "user" | "system", reason: string): void;
  /** Reports that the work continues. */
  unblock(): void;
}

/**
 * Works on a task; returns the outputs. A thrown `Failure` is reported with its own code, any other
 * error with `worker_error`. Outputs that are not valid JSON (a `bigint`, a circular value), or that
 * the server rejects, fail as `report_refused`.
 */
export type Handler = (job: Job) => Promise<JsonObject | void> | JsonObject | void;

export interface WorkerOptions {
  /** Unique among the workers of the queue. */
  name?: string;
  /** Maximum concurrent tasks, 1 to 64. */
  slots?: number;
  /** Wait for a task per request, at most 25000. */
  waitMs?: number;
  /** Time for running tasks once the worker is stopped, in milliseconds. */
  graceMs?: number;
  /** Receives messages about retried errors. */
  log?: (message: string) => void;
}

/** Takes tasks of a queue and lets a function work on them. */
export class Worker {
  /** Unique among the workers of the queue. */
  readonly name: string;
  readonly #queue: Queue;
  readonly #handle: Handler;
  readonly #slots: number;
  readonly #waitMs: number;
  readonly #graceMs: number;
  readonly #log: (message: string) => void;
  readonly #reports: Reports;
  readonly #running = new Map<OpenJob, Promise<void>>();

  constructor(queue: Queue, handle: Handler, options: WorkerOptions = {}) {
    const slots = options.slots ?? 1;
    if (!Number.isInteger(slots) || slots < 1 || slots > 64) {
      throw new RangeError("slots must be 1 to 64");
    }
    this.#queue = queue;
    this.#reports = new Reports(queue);
    this.#handle = handle;
    this.#slots = slots;
    this.name = options.name ?? `worker-${crypto.randomUUID()}`;
    this.#waitMs = options.waitMs ?? 20_000;
    this.#graceMs = options.graceMs ?? 10_000;
    this.#log = options.log ?? (() => {});
  }

  /**
   * Works until the signal is aborted. Then it takes no further tasks, gives running ones the grace
   * period to end, aborts the signals of the rest, and releases those that do not end even then.
   * Throws if the credential is rejected.
   */
  async run(signal: AbortSignal): Promise<void> {
    const stopped = aborted(signal);
    try {
      while (!signal.aborted) {
        const free = this.#slots - this.#running.size;
        if (free === 0) {
          await Promise.race([...this.#running.values(), stopped]);
          continue;
        }
        const taken = await this.#take(free, signal);
        for (const assignment of await this.#mayBegin(taken, signal)) {
          this.#begin(assignment);
        }
        if (taken.length === 0 && this.#waitMs === 0) {
          await pause(200, signal);
        }
      }
    } finally {
      await this.#shutDown();
    }
  }

  /**
   * Takes tasks, under one key until there is an answer: assignments of a lost answer are returned
   * again. Once the signal is aborted they are released.
   */
  async #take(free: number, signal: AbortSignal): Promise<Assignment[]> {
    const key = crypto.randomUUID();
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      try {
        const options = { max: free, waitMs: this.#waitMs, key, signal };
        const { assignments } = await this.#queue.take(this.name, options);
        if (!signal.aborted) {
          return assignments;
        }
      } catch (error) {
        if (signal.aborted) {
          break;
        }
        if (!(error instanceof Unreachable)) {
          throw error;
        }
        this.#log(`no task could be taken: ${error.message}`);
        await pause(backOff(attempt, error), signal);
      }
    }
    await this.#lateAnswer("the last take", () => this.#queue.releaseTake(this.name, key));
    return [];
  }

  /** Reports the start of offered tasks; returns the tasks that may be worked on. */
  async #mayBegin(taken: Assignment[], signal: AbortSignal): Promise<Assignment[]> {
    const offered = taken.filter((assignment) => typeof assignment.begin_ms === "number");
    const begun = new Set(taken.filter((assignment) => !offered.includes(assignment)));
    for (let attempt = 1; offered.length > 0; attempt += 1) {
      try {
        const refused = await this.#queue.begin(offered);
        const later: Assignment[] = [];
        offered.forEach((assignment, place) => {
          const error = refused[place];
          if (error === undefined) {
            begun.add(assignment);
          } else if (error instanceof Unreachable) {
            later.push(assignment);
          } else {
            this.#log(`a task was not begun: ${error.message}`);
          }
        });
        offered.splice(0, offered.length, ...later);
        if (offered.length === 0) {
          break;
        }
      } catch (error) {
        if (!(error instanceof Unreachable)) {
          throw error;
        }
        this.#log(`a begin request was not answered: ${error.message}`);
      }
      await pause(Math.min(1_000, 100 * attempt), signal);
      if (signal.aborted) {
        const ends: [Assignment, End][] = offered.map((one) => [one, { release: true }]);
        await this.#lateAnswer("what was offered", () => this.#queue.settle(ends));
        break;
      }
    }
    return [...begun];
  }

  /** Repeats a request until there is an answer, within the time for a stop. */
  async #lateAnswer(what: string, say: () => Promise<unknown>): Promise<void> {
    const until = performance.now() + this.#graceMs;
    for (;;) {
      try {
        await say();
        return;
      } catch (error) {
        if (!(error instanceof Unreachable) || performance.now() >= until) {
          this.#log(`${what} was not returned: ${told(error)}`);
          return;
        }
        await pause(200, new AbortController().signal);
      }
    }
  }

  #begin(assignment: Assignment): void {
    const job = new OpenJob(this.#queue, assignment, this.#log);
    const work = this.#work(job).finally(() => this.#running.delete(job));
    this.#running.set(job, work);
  }

  async #work(job: OpenJob): Promise<void> {
    const beats = job.heartbeats();
    try {
      await this.#settle(job, await this.#outcome(job));
    } finally {
      job.end();
      await beats;
    }
  }

  /** Calls the function; returns the end to report. */
  async #outcome(job: OpenJob): Promise<End> {
    try {
      return { outputs: (await this.#handle(job)) ?? {} };
    } catch (error) {
      if (job.signal.aborted) {
        return { release: true };
      }
      if (error instanceof Failure) {
        const failure = { code: error.code, message: cut(told(error.message)) };
        const { retryable } = error;
        return { error: retryable === undefined ? failure : { ...failure, retryable } };
      }
      return { error: { code: "worker_error", message: cut(told(error)) } };
    }
  }

  /** Reports until there is an answer: each report may be sent again. */
  async #settle(job: OpenJob, end: End): Promise<void> {
    let report = end;
    let wasRefused = false;
    for (let attempt = 1; job.lost === undefined; attempt += 1) {
      try {
        await this.#reports.tell(job.assignment, report);
        return;
      } catch (error) {
        if (error instanceof Unreachable) {
          this.#log(`a report was not answered: ${error.message}`);
          await pause(backOff(attempt, error), job.gone);
          continue;
        }
        if (error instanceof Refused && error.isLost) {
          job.lose(error.code);
          return;
        }
        // Rejected by the server, or not valid JSON.
        const why = error instanceof Refused ? error.message : told(error);
        this.#log(`a report was refused: ${why}`);
        if (wasRefused) {
          return;
        }
        wasRefused = true;
        // A rejected report must not leave the task open: report that as a failure.
        report = { error: { code: "report_refused", message: cut(why), retryable: false } };
      }
    }
  }

  async #shutDown(): Promise<void> {
    await this.#drain();
    for (const job of this.#running.keys()) {
      job.stop(new Stopped("the worker shuts down"));
    }
    await this.#drain();
    const late = [...this.#running.keys()];
    await Promise.all(
      late.map(async (job) => {
        // Its function does not end. Its later reports have an old fence and are rejected.
        job.lose("released");
        try {
          await this.#queue.release(job.assignment);
        } catch (error) {
          this.#log(`a task was not returned: ${String(error)}`);
        }
      }),
    );
  }

  async #drain(): Promise<void> {
    const late = new AbortController();
    const all = Promise.all(this.#running.values()).then(() => late.abort());
    await Promise.race([all, pause(this.#graceMs, late.signal)]);
    late.abort();
  }
}

class OpenJob implements Job {
  readonly #queue: Queue;
  readonly #log: (message: string) => void;
  readonly #stopping = new AbortController();
  readonly #gone = new AbortController();
  readonly #seqs: Record<Stream, number> = { stdout: 0, stderr: 0 };
  #lost: string | undefined;
  #blocked: Blocked | undefined;
  #wake: (() => void) | undefined;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(
    queue: Queue,
    readonly assignment: Assignment,
    log: (message: string) => void,
  ) {
    this.#queue = queue;
    this.#log = log;
  }

  get task(): Json {
    return this.assignment.task;
  }

  get run(): Run | null {
    return this.assignment.run;
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  get lost(): string | undefined {
    return this.#lost;
  }

  /** Aborted when the task is settled or lost. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  output(text: string, stream: Stream = "stdout"): Promise<boolean> {
    // Sequentially, in the order of their numbers.
    const written = this.#writing.then(() => this.#write(text, stream));
    this.#writing = written;
    return written;
  }

  async #write(text: string, stream: Stream): Promise<boolean> {
    let kept = true;
    for (const chunk of chunks(text)) {
      const seq = this.#seqs[stream]++;
      try {
        kept = (await this.#queue.output(this.assignment, stream, seq, chunk)) && kept;
      } catch (error) {
        kept = false;
        if (error instanceof Refused && error.isLost) {
          this.lose(error.code);
        } else {
          this.#log(`output was dropped: ${String(error)}`);
        }
      }
    }
    return kept;
  }

  blockOn(what: "user" | "system", reason: string): void {
    this.#blocked = { on: what, reason: cut(reason, MAX_REASON) };
    this.#wake?.();
  }

  unblock(): void {
    this.#blocked = undefined;
    this.#wake?.();
  }

  stop(why: Stopped): void {
    this.#stopping.abort(why);
  }

  lose(code: string): void {
    this.#lost ??= code;
    this.stop(new Stopped(code));
    this.end();
  }

  end(): void {
    this.#gone.abort();
    this.#wake?.();
  }

  /**
   * Sends heartbeats until the task is settled or lost. After a whole timeout without a successful
   * one the worker stops by itself: another may have the task.
   */
  async heartbeats(): Promise<void> {
    const { heartbeat_ms: every, heartbeat_timeout_ms: timeout } = this.assignment;
    let heard = performance.now();
    let wait = every;
    for (;;) {
      await this.#nap(wait);
      if (this.#gone.signal.aborted) {
        return;
      }
      const blocked = this.#blocked;
      try {
        await this.#queue.heartbeat(this.assignment, blocked);
        heard = performance.now();
        // Send a reason that changed meanwhile at once, too.
        wait = this.#blocked === blocked ? every : 0;
      } catch (error) {
        if (error instanceof Refused && error.isLost) {
          this.lose(error.code);
          return;
        }
        this.#log(`a heartbeat was not answered: ${String(error)}`);
        if (error instanceof Unreachable) {
          wait = Math.min(1_000, every);
        } else if (blocked === undefined) {
          wait = every;
        } else {
          // Drop the rejected reason, and send a plain heartbeat at once.
          wait = 0;
          if (this.#blocked === blocked) {
            this.#blocked = undefined;
          }
        }
        if (performance.now() - heard >= timeout) {
          this.lose("no_heartbeat");
          return;
        }
      }
    }
  }

  /** Waits for a time, or until there is a change to report. */
  async #nap(ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    if (this.#gone.signal.aborted) {
      return;
    }
    await pause(ms, woken.signal);
    this.#wake = undefined;
  }
}

/** Waits for a time, or until the signal is aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
    }
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/**
 * Milliseconds before the next try: the server's request, or an exponential backoff with jitter, so
 * that many workers do not return all at once.
 */
function backOff(attempt: number, error: Unreachable): number {
  const growing = Math.min(30_000, 250 * 2 ** Math.min(attempt, 7)) * (0.5 + Math.random() / 2);
  return error.retryAfterMs ?? growing;
}

/** The text of a thrown value, even if its conversion throws. */
function told(error: unknown): string {
  try {
    return String(error);
  } catch {
    return "something that has no text was thrown";
  }
}

function cut(message: string, most = MAX_MESSAGE): string {
  return chunks(message, most)[0] ?? "";
}

/** The text in pieces of at most the given bytes, cut between characters. */
function chunks(text: string, most = MAX_CHUNK): string[] {
  const bytes = new TextEncoder().encode(text);
  // A byte order mark is an ordinary character of the text.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const pieces: string[] = [];
  let start = 0;
  while (start < bytes.length) {
    let end = Math.min(start + most, bytes.length);
    // A byte of the form 10xxxxxx continues the character before it.
    while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) {
      end -= 1;
    }
    pieces.push(decoder.decode(bytes.subarray(start, end)));
    start = end;
  }
  return pieces;
}
