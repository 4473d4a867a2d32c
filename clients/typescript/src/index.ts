/**
 * Workers for Runwright queues, with the platform's `fetch` alone: Node.js 20 or later, Deno, Bun.
 *
 * `Worker` takes tasks, keeps their heartbeats and reports what came of them around a function of
 * yours; `Queue` is the bare contract, a method per address.
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
