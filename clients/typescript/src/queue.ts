/**
 * The HTTP contract of a queue, one method per endpoint. Each call is one request without retries;
 * the caller decides about those (`Worker` does).
 */

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
/** A JSON object. */
export type JsonObject = { [name: string]: Json };

/** The attempt of a node that an assignment belongs to. */
export interface Run {
  run_id: string;
  node_id: string;
  visit: number;
  attempt: number;
}

/**
 * A task assigned to this worker. `fence` grows with each assignment of the task; reports with an
 * older one are rejected.
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
  /** The task is only offered: call `begin` within this many milliseconds, before the work starts. */
  begin_ms: number | null;
  repeat: "repeatable" | "once";
  task: Json;
  run: Run | null;
}

/** The result of a take. Without assignments, `reasons` may explain why none were made. */
export interface Taken {
  assignments: Assignment[];
  ready: boolean;
  reasons: string[];
}

/** An event of the queue's log; `id` is the cursor for the next page. */
export interface QueueEvent {
  id: string;
  at: string;
  event: JsonObject;
}

/** The reason for a worker's wait. */
export interface Blocked {
  on: "user" | "system";
  reason: string;
}

/** The end of a task: outputs, a failure, or a release. */
export type End =
  | { outputs: JsonObject }
  | { error: { code: string; message: string; retryable?: boolean } }
  | { release: true };

/** The stream of output. */
export type Stream = "stdout" | "stderr";

/** Codes that end the work on an assignment: its result will be rejected. */
const LOST: ReadonlySet<string> = new Set([
  "assignment_not_found",
  "assignment_lost",
  "assignment_withdrawn",
  "assignment_released",
  "assignment_settled",
]);

/**
 * The longest body that a server accepts, in bytes. It does not read a longer one to its end, so
 * the client may see a broken connection instead of the refusal.
 */
const MAX_BODY = 2 << 20;

/** Codes of one of several assignments that ask for a retry. */
const LATER: ReadonlySet<string> = new Set([
  "service_unavailable",
  "coordinator_full",
  "rate_limited",
  "internal_error",
]);

/** The server rejected the request. */
export class Refused extends Error {
  override readonly name = "Refused";

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** Stable, for programs. */
    readonly code: string,
    message: string,
    /** The server's details. */
    readonly details?: unknown,
  ) {
    super(`${code}: ${message}`);
  }

  /** Whether the assignment no longer belongs to this worker: stop the work. */
  get isLost(): boolean {
    return LOST.has(this.code);
  }
}

/** No answer, or one that asks for a retry: the outcome of the request is unknown. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";

  constructor(
    message: string,
    /** The wait in milliseconds that the server requested, if any. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }
}

export interface QueueOptions {
  /** Timeout of an answer in addition to the requested wait, in milliseconds. */
  patienceMs?: number;
  /** Replaces the platform's. */
  fetch?: typeof fetch;
}

/**
 * A queue of a server. `key` is an API key with the scope `workers:take`, and with
 * `coordinator:read` or `coordinator:write` for the methods that need these.
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
      throw new TypeError("the server must be an address such as http://127.0.0.1:8080");
    }
    this.#base = `${server.replace(/\/+$/, "")}/v1/coordinator/${encodeURIComponent(name)}`;
    this.#key = key;
    this.#patienceMs = options.patienceMs ?? 15_000;
    this.#fetch = options.fetch ?? fetch;
  }

  /**
   * Requests up to `max` tasks, and waits up to `waitMs` (at most 25000) for one. A repeated `key`
   * returns the same tasks. A task that must not be repeated is then only offered.
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
   * Releases the assignments under the key of a take whose answer was not read; no further ones are
   * made under it.
   */
  async releaseTake(worker: string, key: string): Promise<void> {
    await this.#ask<unknown>("POST", "/release", { worker, key });
  }

  /** Reports the start of offered tasks. Returns for each the error that forbids it. */
  begin(assignments: Assignment[]): Promise<(Error | undefined)[]> {
    return this.#each("/begin", assignments, () => ({}));
  }

  /** Reports the ends of several tasks. Returns for each the error of a rejected one. */
  settle(ends: [Assignment, End][]): Promise<(Error | undefined)[]> {
    const said = new Map(ends);
    return this.#each("/settle", [...said.keys()], (assignment) => said.get(assignment) ?? {});
  }

  /** Sends a heartbeat; returns the milliseconds until the next one is overdue. */
  async heartbeat(assignment: Assignment, blocked?: Blocked): Promise<number> {
    const body = { blocked_on: blocked?.on ?? null, reason: blocked?.reason ?? null };
    const answer = await this.#of<{ expires_in_ms: number }>(assignment, "heartbeat", body);
    return answer.expires_in_ms;
  }

  /** Reports a chunk of at most 65536 bytes. `false` if it does not belong to a run. */
  async output(assignment: Assignment, stream: Stream, seq: number, chunk: string): Promise<boolean> {
    const body = { stream, seq, chunk };
    return (await this.#of<{ kept: boolean }>(assignment, "output", body)).kept;
  }

  /** Reports a result. `true` if it was reported before: then nothing changed. */
  async result(assignment: Assignment, outputs: JsonObject): Promise<boolean> {
    return (await this.#of<{ repeated: boolean }>(assignment, "result", { outputs })).repeated;
  }

  /** Reports a failure. `true` if it was reported before. */
  async failure(
    assignment: Assignment,
    error: { code: string; message: string; retryable?: boolean },
  ): Promise<boolean> {
    return (await this.#of<{ repeated: boolean }>(assignment, "failure", { error })).repeated;
  }

  /** Releases a task without a result. */
  async release(assignment: Assignment): Promise<void> {
    await this.#of<unknown>(assignment, "release", {});
  }

  /** The queue's snapshot, in the form of the runtime contract. */
  snapshot(): Promise<JsonObject> {
    return this.#ask<JsonObject>("GET", "/snapshot");
  }

  /** Whether tasks are assigned, and the reasons if not. */
  readiness(): Promise<{ ready: boolean; reasons: string[] }> {
    return this.#ask<{ ready: boolean; reasons: string[] }>("GET", "/readiness");
  }

  /** The workers with tasks, and their assignments. */
  workers(): Promise<JsonObject> {
    return this.#ask<JsonObject>("GET", "/workers");
  }

  /** Sends the queue a command of the runtime contract; returns its event. */
  command(command: JsonObject): Promise<JsonObject> {
    return this.#ask<JsonObject>("POST", "/commands", command);
  }

  /** Events after one, the cursor for the next page, and whether the list is complete for now. */
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
      // Never sends a credential to a redirect target.
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
    // A proxy on the way has answered in its own format.
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

/** The message, with the place and text of each error in the details. */
function why(message: string, details: unknown): string {
  const errors = (details as { errors?: unknown } | undefined | null)?.errors;
  const listed = Array.isArray(errors) ? (errors as { path?: unknown; message?: unknown }[]) : [];
  return message + listed.map((one) => `; ${one.path}: ${one.message}`).join("");
}
