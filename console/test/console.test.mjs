import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, clean, launch, open, press, says, show, signIn, violations } from "./support.mjs";

let server;
let browser;

before(async () => {
  server = await Server.start("store");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.kill();
});

test("a key becomes a session that no script can read", async () => {
  const page = await open(browser);
  await show(page, server, "#/runs");
  await page.waitForSelector("#token");
  await page.type("#token", "rw_0_0");
  await page.keyboard.press("Enter");
  await says(page, "credential", ".wrong");
  assert.equal(await page.$eval("#token", (field) => field.value), "");
  await page.type("#token", server.key);
  await page.keyboard.press("Enter");
  await says(page, "Runs", "h1");
  const readable = await page.evaluate(() =>
    JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href]),
  );
  assert.ok(!readable.includes(server.key.slice(0, 20)), readable);
  assert.ok(!readable.includes("runwright_session"), readable);
  await page.reload();
  await says(page, "Runs", "h1");
  await press(page, "Sign out");
  await page.waitForSelector("#token");
  await page.reload();
  await page.waitForSelector("#token");
  clean(page);
});

test("the list is live, and its filters are in the address", async () => {
  const page = await open(browser);
  await signIn(page, server);
  const run = await server.create("waits", { tags: ["night shift"] });
  await says(page, run.slice(-8), "table");
  await press(page, "night shift");
  await page.waitForFunction(() => location.hash.includes("tag=night+shift"));
  await press(page, "completed");
  await says(page, "No run has all of these");
  await page.reload();
  await says(page, "No run has all of these");
  await page.evaluate(() => (location.hash = "#/runs?status=running&tag=night+shift"));
  await says(page, run.slice(-8), "table");
  await page.click(`input[aria-label="Select run …${run.slice(-8)}"]`);
  await says(page, "1 run selected");
  await press(page, "Cancel 1 run");
  await says(page, "1 run cancelled", ".notes");
  await says(page, "No run has all of these");
  const failed = await server.ended("fails", { tags: ["broken"] });
  await page.evaluate(() => (location.hash = "#/runs?tag=broken"));
  await says(page, failed.slice(-8), "table");
  await page.click(`input[aria-label="Select run …${failed.slice(-8)}"]`);
  await press(page, "Retry 1 failed run");
  await says(page, "1 run continued from the failed step", ".notes");
  await page.waitForFunction(() => document.querySelectorAll("table.runs tbody tr").length === 2);
  clean(page);
});

test("a failed run shows why, and is retried from its step", async () => {
  const run = await server.ended("fails");
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}`);
  await says(page, "Failed at check: process_failed", ".sentence");
  await page.waitForSelector(".node.s-completed");
  const failed = await page.$eval(".node.s-failed", (one) => one.getAttribute("aria-label"));
  assert.match(failed, /^check .*, failed$/);
  await says(page, "2 tries", ".graph");
  // The failed step is opened by itself.
  await says(page, "no luck", ".inspector");
  await page.waitForFunction(() => document.querySelectorAll(".lane").length === 2);
  await press(page, "Output", ".tabs");
  const green = await page.waitForSelector(".terminal .f2");
  assert.equal(await green.evaluate((one) => one.innerText), "green");
  assert.ok(!(await page.$eval(".terminal", (one) => one.innerText)).includes("\u001b"));
  await page.evaluate((id) => (location.hash = `#/runs/${id}?tab=events&seq=1`), run);
  await says(page, "1 node.started", ".inspector");
  await page.type('.events input[type="search"]', "node.retried");
  await page.waitForFunction(() => document.querySelectorAll("button.event").length === 1);
  await press(page, "Retry from the failed step");
  await page.waitForFunction((id) => !location.hash.includes(id), {}, run);
  await says(page, "Branch of", ".facts");
  await says(page, "Failed at check", ".sentence");
  clean(page);
});

test("artifacts are shown as what they are", async () => {
  const run = await server.ended("keeps");
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}?tab=data`);
  await page.waitForFunction(() => document.querySelectorAll(".artifact").length === 2);
  await press(page, "Show", ".artifact");
  await says(page, "+new", ".diff .added");
  assert.equal(await page.$$eval(".diff .removed", (lines) => lines.length), 1);
  await press(page, "Show", ".artifact");
  await says(page, "answer", ".artifact .key");
  clean(page);
});

test("the slider shows the run as it was", async () => {
  const run = await server.ended("fails");
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}`);
  await page.waitForSelector(".node.s-failed");
  await page.focus(".slider input");
  await page.keyboard.press("Home");
  await says(page, "after event 0", ".slider");
  await page.waitForFunction(() => document.querySelectorAll(".node.s-pending").length === 3);
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelectorAll(".node.s-running").length === 1);
  await press(page, "Back to the end");
  await page.waitForSelector(".node.s-failed");
  clean(page);
});

test("answers in the inbox and on the page move runs on", async () => {
  const [signs, asks] = [await server.create("signs"), await server.create("asks")];
  const page = await open(browser);
  await signIn(page, server, server.key, "#/inbox");
  await says(page, "Publish the notes?");
  await says(page, "Which city?");
  await page.select(".answer-form select", "0");
  await page.type('.answer-form input[type="text"]', "none");
  await press(page, "Answer");
  await says(page, "this is not a number");
  await page.$eval('.answer-form input[type="text"]', (field) => (field.value = ""));
  await page.type('.answer-form input[type="text"]', "3");
  await press(page, "Answer");
  await says(page, "Answered", ".notes");
  await page.evaluate((id) => (location.hash = `#/runs/${id}`), asks);
  await says(page, "Completed", ".sentence");
  await page.evaluate((id) => (location.hash = `#/runs/${id}`), signs);
  await says(page, "Waits for an answer at gate", ".sentence");
  await press(page, "Accept");
  await says(page, "Completed", ".sentence");
  await page.waitForFunction(() => document.querySelectorAll(".node.s-completed").length === 2);
  clean(page);
});

test("a run is paused, resumed, forked, replayed and cancelled", async () => {
  const run = await server.create("waits");
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${run}`);
  await press(page, "Pause…");
  await press(page, "Stop them now", "dialog");
  await says(page, "paused", ".run-title");
  await press(page, "Resume");
  await says(page, "running", ".run-title");
  await press(page, "Replay");
  await says(page, "The replay made the same decisions.", ".notes");
  await page.evaluate((id) => (location.hash = `#/runs/${id}`), run);
  await press(page, "Fork…");
  await press(page, "Fork", "dialog");
  await says(page, "Branch of", ".facts");
  await press(page, "Cancel…");
  await page.type('dialog input[type="text"]', "seen enough");
  await press(page, "Cancel the run");
  await says(page, "Cancelled: seen enough", ".sentence");
  clean(page);
});

test("a run is started from a form", async () => {
  const page = await open(browser);
  await signIn(page, server, server.key, "#/workflows/greets?tab=start");
  await says(page, "Whom to greet");
  const field = '.control input[type="text"]';
  await page.waitForSelector(field);
  await page.$eval(field, (one) => (one.value = ""));
  await page.type(field, "Ada");
  await press(page, "Start");
  await says(page, "Completed", ".sentence");
  await press(page, "Data", ".tabs");
  await says(page, "Hello Ada");
  clean(page);
});

test("a definition is checked while it is typed, and registered", async () => {
  const page = await open(browser);
  await signIn(page, server, server.key, "#/workflows/new");
  await says(page, "No problems.");
  const typed = (change) =>
    page.$eval(
      "#definition",
      (area, [from, to]) => {
        area.value = area.value.replace(from, to);
        area.dispatchEvent(new InputEvent("input", { bubbles: true }));
      },
      change,
    );
  await typed(["runwright.transform", "runwright.transfrom"]);
  await says(page, "runwright.transform", ".findings");
  await typed(["runwright.transfrom", "runwright.transform"]);
  await typed(['"my-workflow"', '"made-here"']);
  await says(page, "No problems.");
  await press(page, "Register");
  await says(page, "Registered made-here 1.0.0", ".notes");
  await page.waitForSelector(".graph .node");
  clean(page);
});

test("two runs are compared from their first difference", async () => {
  const first = await server.ended("greets", { inputs: { who: "the early birds" } });
  const second = await server.ended("greets", { inputs: { who: "the late birds" } });
  const page = await open(browser);
  await signIn(page, server, server.key, `#/runs/${second}?tab=related&against=${first}`);
  await page.waitForSelector("mark.new");
  const marks = await page.$$eval("mark.new", (all) => all.map((one) => one.innerText));
  assert.ok(marks.includes("late"), marks.join());
  const gone = await page.$$eval("mark.gone", (all) => all.map((one) => one.innerText));
  assert.ok(gone.includes("early") && !gone.join(" ").includes("birds"), gone.join());
  clean(page);
});

test("a page follows its run over a killed server", async () => {
  const own = await Server.start("killed");
  const run = await own.create("signs");
  const page = await open(browser);
  await signIn(page, own, own.key, `#/runs/${run}`);
  await says(page, "live", ".link");
  await own.kill();
  await says(page, "connection lost", ".link");
  const listen = new URL(own.url).host;
  const again = await Server.start("killed", { listen });
  await says(page, "live", ".link");
  // The session outlives the server that made it.
  await press(page, "Accept");
  await says(page, "Completed", ".sentence");
  await again.kill();
  clean(page);
});

test("tenants see their own runs, and scopes hide the rest", async () => {
  const run = await server.create("waits");
  const page = await open(browser);
  await signIn(page, server, server.newKey("umbrella"), "#/runs");
  await says(page, "No runs yet");
  await page.evaluate((id) => (location.hash = `#/runs/${id}`), run);
  await page.waitForSelector(".problem");
  const reader = await open(browser);
  await signIn(reader, server, server.newKey("acme", "--scopes", "runs:read"), `#/runs/${run}`);
  await says(reader, "runs since", ".sentence");
  const names = await reader.$$eval("button, nav a", (all) => all.map((one) => one.innerText));
  for (const hidden of ["Pause…", "Cancel…", "Fork…", "Replay", "Workflows", "Webhooks"]) {
    assert.ok(!names.includes(hidden), `${hidden} of ${names}`);
  }
  clean(page);
  clean(reader);
});

test("a page whose key is revoked asks for another", async () => {
  const key = server.newKey("acme");
  const page = await open(browser);
  await signIn(page, server, key);
  await says(page, "Runs", "h1");
  const id = key.split("_")[1];
  server.cli("keys", "revoke", "--data", server.data, "--tenant", "acme", id);
  await page.waitForSelector("#token");
  clean(page);
});

test("a server for development asks nothing", async () => {
  const own = await Server.start("open", { dev: true });
  const page = await open(browser);
  await show(page, own, "#/runs");
  await says(page, "No runs yet");
  assert.equal(await page.$("#token"), null);
  clean(page);
  await own.kill();
});

test("the keyboard reaches every page", async () => {
  const page = await open(browser);
  await signIn(page, server);
  await says(page, "Runs", "h1");
  await page.keyboard.press("/");
  await page.waitForSelector(".palette-input");
  await page.keyboard.type("inbo");
  await page.keyboard.press("Enter");
  await says(page, "Inbox", "h1");
  for (const [key, title] of [
    ["w", "Workflows"],
    ["q", "Queues"],
    ["h", "Webhooks"],
    ["p", "Spending"],
    ["s", "Server"],
    ["r", "Runs"],
  ]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await says(page, title, "h1");
  }
  clean(page);
});

test("no page breaks a rule of accessibility or its width", async () => {
  const failed = await server.ended("fails");
  await server.create("asks");
  await server.create("signs");
  const page = await open(browser);
  await signIn(page, server);
  const pages = [
    ["#/runs", "table"],
    [`#/runs/${failed}`, ".inspector"],
    [`#/runs/${failed}?tab=events&seq=1`, "button.event"],
    [`#/runs/${failed}?tab=calls`, ".empty"],
    [`#/runs/${failed}?tab=output`, ".terminal"],
    [`#/runs/${failed}?tab=data`, ".value"],
    [`#/runs/${failed}?tab=related`, "select"],
    ["#/inbox", ".question"],
    ["#/workflows", "table"],
    ["#/workflows/fails?tab=graph&node=check", ".inspector"],
    ["#/workflows/greets?tab=start", ".control"],
    ["#/workflows/greets?tab=edit", "#definition"],
    ["#/queues/some", ".sections, .problem"],
    ["#/webhooks", ".empty"],
    ["#/spending", ".empty"],
    ["#/server", ".facts"],
    ["#/server/keys", "table"],
    ["#/server/audit", "table"],
  ];
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const [hash, selector] of pages) {
      await page.evaluate((to) => (location.hash = to), hash);
      await page.waitForSelector(selector);
      assert.deepEqual(await violations(page), [], `${hash} in ${scheme}`);
    }
  }
  for (const width of [360, 3840]) {
    await page.setViewport({ width, height: 800 });
    for (const [hash, selector] of pages) {
      await page.evaluate((to) => (location.hash = to), hash);
      await page.waitForSelector(selector);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${hash} is ${over} too wide at ${width}`);
    }
  }
  clean(page);
});
