/**
 * Workers for Runwright queues, with the platform's `fetch` alone: Node.js 20 or later, Deno, Bun.
 *
 * `Worker` takes tasks, sends their heartbeats and reports their outcomes around a function of
 * yours; `Queue` is the bare contract, one method per endpoint.
 */
export {
  Queue,
  Refused,
  Unreachable,
  type Assignment,
  type Blocked,
  type End,
  type Json,
  type JsonObject,
  type QueueEvent,
  type QueueOptions,
  type Run,
  type Stream,
  type Taken,
} from "./queue.js";
export { Failure, Stopped, Worker, type Handler, type Job, type WorkerOptions } from "./worker.js";
