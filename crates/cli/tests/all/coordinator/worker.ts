/**
 * Lets the worker library for TypeScript work against a server.
 *
 *     node worker.js URL KEY EXAMPLE
 *
 * The server has the workflow `counting`, whose one node gives its inputs to the queue `words`, and
 * `waiting`, whose one node gives its to the queue `slow`.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";

import {
  Failure,
  Queue,
  Refused,
  Worker,
  type Assignment,
  type Job,
  type Json,
  type JsonObject,
} from "../src/index.js";

const [URL_, KEY, EXAMPLE] = process.argv.slice(2) as [string, string, string];
/** Nothing takes longer unless it hangs. */
const DEADLINE_MS = 60_000;

async function api(method: string, path: string, body: object): Promise<JsonObject> {
  const answer = await fetch(URL_ + path, {
    method,
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return (await answer.json()) as JsonObject;
}

async function put(queue: Queue, request: string, task: Json): Promise<void> {
  const event = await queue.command({
    command: "QueueDispatch",
    request_id: request,
    target: queue.name,
    metadata: task,
  });
  assert.equal(event["event"], "DispatchQueued");
}

/** The next assignment, waited for by long polls. */
async function take(queue: Queue, worker = "w"): Promise<Assignment> {
  for (let tries = 0; tries < 10; tries += 1) {
    const [first] = (await queue.take(worker, { waitMs: 6_000 })).assignments;
    if (first !== undefined) {
      return first;
    }
  }
  throw new Error("nothing was handed out");
}

const refused = (code: string) => (error: unknown) =>
  error instanceof Refused && error.code === code;

/** The queue's events, up to one that is waited for. */
async function eventsUntil(
  queue: Queue,
  isLast: (event: JsonObject) => boolean,
): Promise<JsonObject[]> {
  const seen: JsonObject[] = [];
  let after: string | null = null;
  const deadline = performance.now() + DEADLINE_MS;
  while (performance.now() < deadline) {
    const options: { waitMs: number; after?: string } = { waitMs: 3_000 };
    if (after !== null) {
      options.after = after;
    }
    const { events, next } = await queue.events(options);
    after = next;
    for (const { event } of events) {
      seen.push(event);
      if (isLast(event)) {
        return seen;
      }
    }
  }
  throw new Error(`the event did not come: ${JSON.stringify(seen)}`);
}

const isEnd = (event: JsonObject): boolean =>
  event["event"] === "DispatchDelivered" || event["event"] === "DispatchFailed";

async function bareContract(): Promise<void> {
  const queue = new Queue(URL_, KEY, "bare-ts");
  // Somebody waits already when the task comes.
  const waiting = take(queue);
  await put(queue, "one", { page: 3 });
  const one = await waiting;
  assert.deepEqual(
    [one.request_id, one.task, one.run, one.fence],
    ["one", { page: 3 }, null, 1],
  );
  assert.ok((await queue.heartbeat(one, { on: "user", reason: "which colour?" })) > 0);
  assert.equal(await queue.output(one, "stdout", 0, "page 3\n"), false);
  assert.equal(await queue.result(one, { pages: 3 }), false);
  assert.equal(await queue.result(one, { pages: 3 }), true);
  await assert.rejects(
    queue.failure(one, { code: "late", message: "too late" }),
    refused("assignment_settled"),
  );
  await put(queue, "two", null);
  const first = await take(queue);
  await queue.release(first);
  const second = await take(queue, "other");
  assert.ok(second.request_id === "two" && second.fence > first.fence);
  await assert.rejects(queue.result(first, {}), refused("assignment_released"));
  await queue.failure(second, { code: "no_space", message: "full", retryable: false });
  assert.equal(((await queue.snapshot())["backlog"] as JsonObject)["failed"], 1);
  assert.deepEqual(await queue.readiness(), { ready: true, reasons: [] });
  await assert.rejects(
    new Queue(URL_, "nobody's key", "bare-ts").take("w"),
    refused("invalid_token"),
  );
  // A poll that is not wanted any more ends at once.
  const stop = new AbortController();
  const poll = queue.take("w", { waitMs: 20_000, signal: stop.signal });
  stop.abort();
  await assert.rejects(poll, { name: "AbortError" });
}

async function workerAroundAFunction(): Promise<void> {
  let asked = 0;
  let lost = 0;
  // Every second answer to a report is lost on its way.
  const shaky: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (/\/settle$/.test(String(input))) {
      asked += 1;
      if (asked % 2 === 0) {
        lost += 1;
        throw new TypeError("the answer was lost");
      }
    }
    return answer;
  };
  const queue = new Queue(URL_, KEY, "tasks-ts", { fetch: shaky });
  const seen: Json[] = [];
  const handle = async (job: Job): Promise<JsonObject> => {
    seen.push(job.task);
    if (job.task === "fail") {
      throw new Failure("out_of_ink", "there is no ink", false);
    }
    if (job.task === "raise") {
      throw new RangeError("ink");
    }
    if (job.task === "too much") {
      return { text: "x".repeat(3 << 19) };
    }
    if (job.task === "no JSON") {
      return { x: 10n } as unknown as JsonObject;
    }
    if (job.task === "a circle") {
      const circle: { again?: unknown } = {};
      circle.again = circle;
      return circle as JsonObject;
    }
    if (job.task === "mute") {
      throw Object.create(null);
    }
    await job.output("é".repeat(50_000));
    return { done: job.task };
  };
  const bad = ["fail", "raise", "too much", "no JSON", "a circle", "mute"];
  const tasks = [...bad, ...Array.from({ length: 12 }, (_, n) => `task ${n}`)];
  for (const [number, task] of tasks.entries()) {
    await put(queue, `r${number}`, task);
  }
  const stop = new AbortController();
  const running = new Worker(queue, handle, { slots: 3, waitMs: 2_000 }).run(stop.signal);
  let open = tasks.length;
  const events = await eventsUntil(
    new Queue(URL_, KEY, "tasks-ts"),
    (event) => isEnd(event) && --open === 0,
  );
  stop.abort();
  await running;
  assert.deepEqual(seen.map(String).sort(), [...tasks].sort());
  assert.ok(lost > 0);
  const failed = new Map(
    events
      .filter((event) => event["event"] === "DispatchFailed")
      .map((event) => [event["request_id"], String(event["reason"])]),
  );
  assert.deepEqual(Object.fromEntries(failed), {
    r0: "out_of_ink",
    r1: "worker_error",
    r2: "report_refused",
    r3: "report_refused",
    r4: "report_refused",
    r5: "worker_error",
  });
}

async function whatCannotBeSaidTakesNoTaskAway(): Promise<void> {
  const said: string[] = [];
  const chunks: string[] = [];
  let plain = (): void => {};
  const isPlain = new Promise<void>((resolve) => (plain = resolve));
  const noting: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    const bytes = init?.body instanceof Uint8Array ? init.body : new TextEncoder().encode("{}");
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    if (String(input).endsWith("/output")) {
      chunks.push((JSON.parse(text) as { chunk: string }).chunk);
    }
    if (String(input).endsWith("/heartbeat") && answer.ok) {
      const body = JSON.parse(text) as { blocked_on: string | null; reason: string };
      said.push(body.reason);
      if (body.blocked_on === null) {
        plain();
      }
    }
    return answer;
  };
  const queue = new Queue(URL_, KEY, "reasons-ts", { fetch: noting });
  const reader = new Queue(URL_, KEY, "reasons-ts");
  let isEarly = false;
  const handle = async (job: Job): Promise<void> => {
    // A mark of the order of bytes is text.
    await job.output("\ufeffbom\n");
    // Longer than a reason may be: its beginning is said.
    job.blockOn("user", "é".repeat(2_000));
    await eventsUntil(reader, (event) => event["event"] === "run.blocked_on_user");
    // Nothing that the server has a word for: the heartbeat is sent without it, and its worker
    // is not missed.
    const began = performance.now();
    job.blockOn("nobody" as "user", "x");
    await isPlain;
    isEarly = performance.now() - began < job.assignment.heartbeat_timeout_ms;
  };
  await put(queue, "said", null);
  const stop = new AbortController();
  const running = new Worker(queue, handle, { waitMs: 2_000 }).run(stop.signal);
  const events = await eventsUntil(reader, isEnd);
  stop.abort();
  await running;
  const names = events.map((event) => event["event"]);
  assert.ok(names.includes("DispatchDelivered") && !names.includes("worker.stalled"));
  assert.ok(isEarly);
  assert.equal(said[0], "é".repeat(512));
  assert.deepEqual(chunks, ["\ufeffbom\n"]);
}

async function withdrawnWorkIsStopped(): Promise<void> {
  const queue = new Queue(URL_, KEY, "slow");
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  let over: string | undefined;
  const handle = async (job: Job): Promise<void> => {
    begin();
    await once(job.signal, "abort");
    over = job.lost;
    job.signal.throwIfAborted();
  };
  const stop = new AbortController();
  const running = new Worker(queue, handle, { waitMs: 2_000 }).run(stop.signal);
  const run = (await api("POST", "/v1/runs", { workflowId: "waiting" }))["runId"];
  await begun;
  await api("POST", `/v1/runs/${String(run)}/cancel`, {});
  await eventsUntil(queue, isEnd);
  stop.abort();
  await running;
  assert.equal(over, "assignment_withdrawn");
}

async function whatIsNotDoneIsGivenBack(): Promise<void> {
  const queue = new Queue(URL_, KEY, "back-ts");
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const handle = async (job: Job): Promise<void> => {
    begin();
    await once(job.signal, "abort");
    job.signal.throwIfAborted();
  };
  await put(queue, "later", null);
  const stop = new AbortController();
  const running = new Worker(queue, handle, { waitMs: 2_000, graceMs: 100 }).run(stop.signal);
  await begun;
  stop.abort();
  await running;
  assert.equal((await take(queue, "next")).request_id, "later");
}

async function exampleCounts(): Promise<void> {
  const child = spawn(process.execPath, [EXAMPLE, URL_, "words"], {
    env: { ...process.env, RUNWRIGHT_KEY: KEY },
    stdio: "inherit",
  });
  const ended = once(child, "exit");
  const run = (await api("POST", "/v1/runs", { workflowId: "counting" }))["runId"];
  await eventsUntil(new Queue(URL_, KEY, "words"), isEnd);
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  console.log("run", run);
}

await bareContract();
await workerAroundAFunction();
await whatCannotBeSaidTakesNoTaskAway();
await withdrawnWorkIsStopped();
await whatIsNotDoneIsGivenBack();
await exampleCounts();
console.log("driven");
