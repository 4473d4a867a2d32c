/**
 * A worker that counts the words of texts.
 *
 *     RUNWRIGHT_KEY=… node dist/examples/wordcount.js http://127.0.0.1:8080 words
 *
 * A task is {"text": "…"}; the result {"words": 3}. SIGTERM and Ctrl-C end it: running tasks are
 * finished, or released.
 */
import { Failure, Queue, Refused, Worker, type Job, type JsonObject } from "../src/index.js";

async function count(job: Job): Promise<JsonObject> {
  const { task } = job;
  const isObject = typeof task === "object" && task !== null && !Array.isArray(task);
  const text = isObject ? task["text"] : undefined;
  if (typeof text !== "string") {
    throw new Failure("no_text", "the task has no text", false);
  }
  let words = 0;
  for (const line of text.split("\n")) {
    job.signal.throwIfAborted();
    words += line.split(/\s+/).filter((word) => word !== "").length;
    await job.output(`${words} words so far\n`);
  }
  return { words };
}

const [server, queue] = process.argv.slice(2);
const key = process.env["RUNWRIGHT_KEY"] ?? "";
if (server === undefined || queue === undefined) {
  throw new Error("usage: RUNWRIGHT_KEY=… wordcount SERVER QUEUE");
}
const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.on(signal, () => stop.abort());
}
const worker = new Worker(new Queue(server, key, queue), count, { slots: 4, log: console.error });
try {
  await worker.run(stop.signal);
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
