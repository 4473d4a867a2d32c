// What people do in the console: filters, counts, live changes, signals, purges, mended forks, keys.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FLOWS, Server, clean, launch, open, press, says, show, signIn, violations } from "./support.mjs";

let server;
let browser;

before(async () => {
  server = await Server.start("actions");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.kill();
});

const rows = (page) => page.$$eval("table.runs tbody tr", (all) => all.length);
const goTo = (page, hash) => page.evaluate((to) => (location.hash = to), hash);

test("filters of the address reach the server, and the counts follow", async () => {
  const one = await server.ended("greets", { metadata: { customer: "Ada" }, tags: ["counted"] });
  await server.ended("fails", { tags: ["counted"] });
  await server.create("waits", { tags: ["counted"] });
  const page = await open(browser);
  await signIn(page, server, server.key, "#/runs?tag=counted");
  await says(page, "3 runs", ".page-head");
  for (const status of ["completed", "failed", "running"]) {
    await says(page, `${status}\n1`, ".chip");
  }
  await goTo(page, "#/runs?tag=counted&attr=customer%3DAda");
  await says(page, "1 run", ".page-head");
  await says(page, one.slice(-8), "table");
  assert.equal(await rows(page), 1);
  await goTo(page, "#/runs?tag=counted&text=FAILS");
  await says(page, "process_failed", "table");
  assert.equal(await rows(page), 1);
  await goTo(page, "#/runs?tag=counted&since=1h");
  await page.waitForFunction(() => document.querySelectorAll("table.runs tbody tr").length === 3);
  await goTo(page, "#/runs?tag=counted&to=2020-01-01T00:00");
  await says(page, "No run has all of these");
  clean(page);
});

test("a text that is typed into a filter stays while runs change", async () => {
  const page = await open(browser);
  await signIn(page, server, server.key, "#/runs");
  await page.waitForSelector("table.runs");
  await page.type('.filter input[placeholder^="id, workflow"]', "half a wo");
  const run = await server.create("waits");
  await says(page, run.slice(-8), "table");
  const typed = await page.$eval('.filter input[placeholder^="id, workflow"]', (one) => one.value);
  assert.equal(typed, "half a wo");
  clean(page);
});

test("every run of the list is cancelled at once", async () => {
  for (let n = 0; n < 3; n++) await server.create("waits", { tags: ["many"] });
  const page = await open(browser);
  await signIn(page, server, server.key, "#/runs?tag=many");
  await page.waitForFunction(() => document.querySelectorAll("table.runs tbody tr").length === 3);
  await page.click("thead input[type=checkbox]");
  await says(page, "3 runs selected");
  await press(page, "Cancel 3 runs");
  await says(page, "3 runs cancelled", ".notes");
  await page.waitForFunction(() => document.querySelectorAll(".status.s-cancelled").length === 3);
  clean(page);
});

test("a signal reaches the node that waits for its event", async () => {
  const flow = structuredClone(FLOWS.find((one) => one.id === "signs"));
  const data = { eventType: "paid", correlation: { n: 1 } };
  flow.id = "hears";
  flow.nodes[0].typeId = "core.interrupt";
  flow.nodes[0].config = { kind: "external-event", data };
  await server.api("POST", "/v1/workflows", flow);
  const run = await server.create("hears");
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}`);
  await says(page, "Waits for", ".sentence");
  await press(page, "Signal…");
  await page.$eval("dialog textarea", (area) => (area.value = ""));
  await page.type("dialog textarea", '{"n": 1}');
  await press(page, "Send", "dialog");
  await says(page, "The run has the signal.", ".notes");
  await says(page, "Completed", ".sentence");
  clean(page);
});

test("a finished run is purged", async () => {
  const run = await server.ended("greets", { tags: ["erased"] });
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}`);
  await says(page, "Completed", ".sentence");
  await press(page, "Purge…");
  await page.type('dialog input[type="text"]', "asked for");
  await press(page, "Purge the run", "dialog");
  await says(page, "The run is erased.", ".notes");
  await goTo(page, "#/runs?tag=erased");
  await says(page, "No run has all of these");
  clean(page);
});

test("a failed step is mended in a fork, and the fork completes", async () => {
  const run = await server.ended("mends");
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}`);
  await says(page, "Failed at write", ".sentence");
  await press(page, "Fork…");
  await page.waitForSelector("dialog .step textarea");
  assert.deepEqual(await violations(page), []);
  assert.equal(await page.$eval("dialog .step select", (one) => one.value), "write");
  await page.$eval("dialog .step textarea", (area) => {
    area.value = JSON.stringify({ text: "'mended'" });
    area.dispatchEvent(new InputEvent("input", { bubbles: true }));
  });
  await press(page, "Fork with the changes", "dialog");
  await page.waitForFunction((id) => !location.hash.includes(id), {}, run);
  await says(page, "Completed", ".sentence");
  await press(page, "Data", ".tabs");
  await says(page, "mended");
  clean(page);
});

test("a run is started like another one", async () => {
  const run = await server.ended("greets", { inputs: { who: "the same" } });
  const page = await open(browser);
  await signIn(page, server, server.key, `#/workflows/greets?tab=start&like=${run}`);
  await press(page, "Start");
  await press(page, "Data", ".tabs");
  await says(page, "Hello the same");
  clean(page);
});

test("a key is made, shown once and revoked", async () => {
  const page = await open(browser);
  await signIn(page, server, server.key, "#/server/keys");
  await press(page, "New key…");
  await page.type('dialog input[type="text"]', "for a test");
  await press(page, "Make the key", "dialog");
  await says(page, "it is shown only once", "dialog");
  const token = await page.$eval("dialog pre", (one) => one.innerText.trim());
  const headers = { authorization: `Bearer ${token}` };
  assert.equal((await fetch(`${server.url}/v1/runs`, { headers })).status, 200);
  await press(page, "I have kept it", "dialog");
  await says(page, "for a test", "table");
  page.removeAllListeners("dialog");
  page.on("dialog", (dialog) => void dialog.accept());
  await press(page, "Revoke key for a test");
  await says(page, "revoked in the console", "table");
  await goTo(page, "#/server/audit");
  await says(page, "key.revoked", "table");
  clean(page);
});

test("a cookie without the secret of its page signs nobody in", async () => {
  const page = await open(browser);
  await signIn(page, server);
  await says(page, "Runs", "h1");
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.waitForSelector("#token");
  clean(page);
});

test("signing out reaches the other tabs", async () => {
  const page = await open(browser);
  await signIn(page, server);
  const other = await page.browserContext().newPage();
  await show(other, server, "#/runs");
  await says(other, "Runs", "h1");
  await press(page, "Sign out");
  await page.waitForSelector("#token");
  await other.bringToFront();
  await other.waitForSelector("#token");
  clean(page);
});
