/**
 * The HTTP contract of a queue, a method per address. Each call is one request: who repeats what,
 * and when, is decided by whoever calls (`Worker` does).
 */

/** What JSON can say. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
/** An object of JSON. */
export type JsonObject = { [name: string]: Json };

/** The attempt of a node that an assignment is for. */
export interface Run {
  run_id: string;
  node_id: string;
  visit: number;
  attempt: number;
}

/**
 * A task in the hands of this worker. `fence` grows each time the task is handed out; what comes
 * under an older one is refused.
 */
export interface Assignment {
  assignment_id: string;
  request_id: string;
  queue: string;
  worker: string;
  fence: number;
  assigned_at: string;
  heartbeat_ms: number;
  heartbeat_timeout_ms: number;
  /** The task is only offered: within so many milliseconds `begin` is to be said, before anything is done. */
  begin_ms: number | null;
  repeat: "repeatable" | "once";
  task: Json;
  run: Run | null;
}

/** What a take came to. Without assignments `reasons` may say why nothing is handed out. */
export interface Taken {
  assignments: Assignment[];
  ready: boolean;
  reasons: string[];
}

/** An event of the queue's log; `id` is what to go on after. */
export interface QueueEvent {
  id: string;
  at: string;
  event: JsonObject;
}

/** What a worker waits for. */
export interface Blocked {
  on: "user" | "system";
  reason: string;
}

/** How a task ends: with outputs, with a failure, or given back. */
export type End =
  | { outputs: JsonObject }
  | { error: { code: string; message: string; retryable?: boolean } }
  | { release: true };

/** Where output goes. */
export type Stream = "stdout" | "stderr";

/** What stops the work on an assignment: its result will not be taken. */
const LOST: ReadonlySet<string> = new Set([
  "assignment_not_found",
  "assignment_lost",
  "assignment_withdrawn",
  "assignment_released",
  "assignment_settled",
]);

/**
 * The longest body that a server takes, in bytes. It does not read a longer one to its end, so who
 * sends one may see a broken connection instead of the refusal.
 */
const MAX_BODY = 2 << 20;

/** Codes of one of several assignments that say to come back. */
const LATER: ReadonlySet<string> = new Set([
  "service_unavailable",
  "coordinator_full",
  "rate_limited",
  "internal_error",
]);

/** The server answered, and the answer is no. */
export class Refused extends Error {
  override readonly name = "Refused";

  constructor(
    /** The status of HTTP. */
    readonly status: number,
    /** Stable, for programs. */
    readonly code: string,
    message: string,
    /** What the server adds. */
    readonly details?: unknown,
  ) {
    super(`${code}: ${message}`);
  }

  /** Whether the assignment is not this worker's any more: stop the work. */
  get isLost(): boolean {
    return LOST.has(this.code);
  }
}

/** No answer, or one that says to come back: nobody knows whether the request was taken in. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";

  constructor(
    message: string,
    /** How many milliseconds the server asked to wait, if it did. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }
}

export interface QueueOptions {
  /** How long a server may take beyond the time it was asked to wait, in milliseconds. */
  patienceMs?: number;
  /** In the place of the platform's. */
  fetch?: typeof fetch;
}

/**
 * A queue of a server. `key` is an API key with the scope `workers:take`, and with
 * `coordinator:read` or `coordinator:write` for what needs these.
 */
export class Queue {
  readonly #base: string;
  readonly #key: string;
  readonly #patienceMs: number;
  readonly #fetch: typeof fetch;

  constructor(
    server: string,
    key: string,
    readonly name: string,
    options: QueueOptions = {},
  ) {
    const address = new URL(server);
    if (address.protocol !== "http:" && address.protocol !== "https:") {
      throw new TypeError("the server is an address such as http://127.0.0.1:8080");
    }
    this.#base = `${server.replace(/\/+$/, "")}/v1/coordinator/${encodeURIComponent(name)}`;
    this.#key = key;
    this.#patienceMs = options.patienceMs ?? 15_000;
    this.#fetch = options.fetch ?? fetch;
  }

  /**
   * Asks for up to `max` tasks, and waits up to `waitMs` (at most 25000) for one. Asked again with
   * the same `key` it gives the same. A task that is not to be repeated is then only offered.
   */
  take(
    worker: string,
    {
      max = 1,
      waitMs = 0,
      key,
      signal,
    }: { max?: number; waitMs?: number; key?: string; signal?: AbortSignal } = {},
  ): Promise<Taken> {
    const body = { worker, max, wait_ms: waitMs, ...(key === undefined ? {} : { key }) };
    return this.#ask<Taken>("POST", "/take", body, waitMs, signal);
  }

  /**
   * Gives back what was handed out under the key of a take whose answer was not read; nothing more
   * is handed out under it.
   */
  async releaseTake(worker: string, key: string): Promise<void> {
    await this.#ask<unknown>("POST", "/release", { worker, key });
  }

  /** Says that the worker begins tasks that were offered to it. Gives for each why it must not. */
  begin(assignments: Assignment[]): Promise<(Error | undefined)[]> {
    return this.#each("/begin", assignments, () => ({}));
  }

  /** Reports the ends of several tasks. Gives for each why it was not taken in. */
  settle(ends: [Assignment, End][]): Promise<(Error | undefined)[]> {
    const said = new Map(ends);
    return this.#each("/settle", [...said.keys()], (assignment) => said.get(assignment) ?? {});
  }

  /** Says that the worker is alive; gives the milliseconds until the next is overdue. */
  async heartbeat(assignment: Assignment, blocked?: Blocked): Promise<number> {
    const body = { blocked_on: blocked?.on ?? null, reason: blocked?.reason ?? null };
    const answer = await this.#of<{ expires_in_ms: number }>(assignment, "heartbeat", body);
    return answer.expires_in_ms;
  }

  /** Reports a chunk of at most 65536 bytes. `false` where no run wants it. */
  async output(assignment: Assignment, stream: Stream, seq: number, chunk: string): Promise<boolean> {
    const body = { stream, seq, chunk };
    return (await this.#of<{ kept: boolean }>(assignment, "output", body)).kept;
  }

  /** Reports a result. `true` where it was reported before: then nothing changed. */
  async result(assignment: Assignment, outputs: JsonObject): Promise<boolean> {
    return (await this.#of<{ repeated: boolean }>(assignment, "result", { outputs })).repeated;
  }

  /** Reports a failure. `true` where it was reported before. */
  async failure(
    assignment: Assignment,
    error: { code: string; message: string; retryable?: boolean },
  ): Promise<boolean> {
    return (await this.#of<{ repeated: boolean }>(assignment, "failure", { error })).repeated;
  }

  /** Gives a task back untouched. */
  async release(assignment: Assignment): Promise<void> {
    await this.#of<unknown>(assignment, "release", {});
  }

  /** The queue's snapshot, as the runtime contract says. */
  snapshot(): Promise<JsonObject> {
    return this.#ask<JsonObject>("GET", "/snapshot");
  }

  /** Whether anything is handed out, and why not. */
  readiness(): Promise<{ ready: boolean; reasons: string[] }> {
    return this.#ask<{ ready: boolean; reasons: string[] }>("GET", "/readiness");
  }

  /** Who was given a task, and what is handed out. */
  workers(): Promise<JsonObject> {
    return this.#ask<JsonObject>("GET", "/workers");
  }

  /** Tells the queue a command of the runtime contract; gives its event. */
  command(command: JsonObject): Promise<JsonObject> {
    return this.#ask<JsonObject>("POST", "/commands", command);
  }

  /** Events behind one, where to go on, and whether these are all there are now. */
  events({
    after,
    limit = 100,
    waitMs = 0,
    signal,
  }: { after?: string; limit?: number; waitMs?: number; signal?: AbortSignal } = {}): Promise<{
    events: QueueEvent[];
    next: string | null;
    complete: boolean;
  }> {
    const query = new URLSearchParams({ limit: String(limit), wait_ms: String(waitMs) });
    if (after !== undefined) {
      query.set("after", after);
    }
    return this.#ask("GET", `/events?${query}`, undefined, waitMs, signal);
  }

  async #each(
    path: string,
    assignments: Assignment[],
    said: (assignment: Assignment) => object,
  ): Promise<(Error | undefined)[]> {
    const body = {
      assignments: assignments.map((assignment) => ({
        assignment_id: assignment.assignment_id,
        fence: assignment.fence,
        ...said(assignment),
      })),
    };
    type Answer = { error?: string; message?: string; details?: unknown };
    const answer = await this.#ask<{ assignments: Answer[] }>("POST", path, body);
    return answer.assignments.map(({ error, message, details }) => {
      if (error === undefined) {
        return undefined;
      }
      const told = why(message ?? "", details);
      return LATER.has(error)
        ? new Unreachable(`${error}: ${told}`)
        : new Refused(LOST.has(error) ? 409 : 400, error, told);
    });
  }

  #of<T>(assignment: Assignment, what: string, body: object): Promise<T> {
    const place = encodeURIComponent(assignment.assignment_id);
    return this.#ask<T>("POST", `/assignments/${place}/${what}`, {
      fence: assignment.fence,
      ...body,
    });
  }

  async #ask<T>(
    method: string,
    path: string,
    body?: object,
    waitMs = 0,
    signal?: AbortSignal,
  ): Promise<T> {
    const late = AbortSignal.timeout(waitMs + this.#patienceMs);
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.#key}`,
      accept: "application/json",
    };
    const init: RequestInit = {
      method,
      headers,
      // A credential goes to the address it was given for and no further.
      redirect: "error",
      signal: signal === undefined ? late : AbortSignal.any([late, signal]),
    };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      const bytes = new TextEncoder().encode(JSON.stringify(body));
      if (bytes.length > MAX_BODY) {
        throw new Refused(413, "payload_too_large", `no server takes ${bytes.length} bytes`);
      }
      init.body = bytes;
    }
    let answer: Response;
    try {
      answer = await this.#fetch(this.#base + path, init);
      if (answer.ok) {
        return (await answer.json()) as T;
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw new Unreachable(String(error));
    }
    throw await refusal(answer);
  }
}

async function refusal(answer: Response): Promise<Error> {
  let code = "unknown";
  let message = `HTTP ${answer.status}`;
  let details: unknown;
  try {
    const envelope: unknown = await answer.json();
    if (typeof envelope === "object" && envelope !== null) {
      const told = envelope as { error?: unknown; message?: unknown; details?: unknown };
      code = typeof told.error === "string" ? told.error : code;
      message = typeof told.message === "string" ? told.message : message;
      details = told.details;
    }
  } catch {
    // Something between here and the server has answered in its own words.
  }
  message = why(message, details);
  if (answer.status === 429 || answer.status >= 500) {
    const wait = Number(answer.headers.get("retry-after") ?? "");
    return wait > 0
      ? new Unreachable(`${code}: ${message}`, wait * 1000)
      : new Unreachable(`${code}: ${message}`);
  }
  return new Refused(answer.status, code, message, details);
}

/** The message, with what it refers to in the details: where something is wrong, and what. */
function why(message: string, details: unknown): string {
  const errors = (details as { errors?: unknown } | undefined | null)?.errors;
  const listed = Array.isArray(errors) ? (errors as { path?: unknown; message?: unknown }[]) : [];
  return message + listed.map((one) => `; ${one.path}: ${one.message}`).join("");
}
