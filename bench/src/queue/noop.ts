/** A worker that does nothing with its tasks, and prints a line for each that it settled. */
import process from "node:process";

import { type Assignment, type End, Queue, Worker } from "../src/index.js";

class Counted extends Queue {
  override async settle(ends: [Assignment, End][]) {
    const errors = await super.settle(ends);
    for (const error of errors) {
      console.log(JSON.stringify({ status: error === undefined ? "delivered" : "refused" }));
    }
    return errors;
  }
}

const [url = "", slots = ""] = process.argv.slice(2);
const queue = new Counted(url, process.env["RUNWRIGHT_KEY"] ?? "", "bench");
await new Worker(queue, async () => ({}), { slots: Number(slots) }).run(new AbortController().signal);
