/**
 * A worker that notes what it begins.
 *
 *     node chaos.js URL NAME LEDGER
 */
import { appendFileSync } from "node:fs";
import { Queue, Worker } from "../src/index.js";

const [url = "", name = "", ledger = ""] = process.argv.slice(2);
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
const worker = new Worker(
  new Queue(url, "none", "q", { patienceMs: 5_000 }),
  async (job) => {
    appendFileSync(ledger, `${job.assignment.request_id}\n`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return { fence: job.assignment.fence };
  },
  { name, slots: 4, waitMs: 5_000 },
);
process.stdout.write("listens\n");
await worker.run(stop.signal);
