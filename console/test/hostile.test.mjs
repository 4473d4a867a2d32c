// What runs contain is text: it is shown as it is, and runs nothing.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Server, clean, launch, open, says, show, violations } from "./support.mjs";

const CASES = {
  script: "<script>window.hit = 1; alert(1)</script>",
  image: '<img src=x onerror="window.hit = 1">',
  drawing: '<svg onload="window.hit = 1"><a href="javascript:window.hit=1">x</a></svg>',
  end: "</script><script>window.hit = 1</script><!--",
  link: "javascript:window.hit=1//",
  template: "${window.hit = 1} {{constructor.constructor('window.hit=1')()}}",
  terminal: "\u001b]8;;javascript:window.hit=1\u0007x\u001b]8;;\u0007\u001b[2J\u001b[999A\u001b]0;t\u0007",
  direction: "user\u202egnp.exe\u202c \u2066x\u2069\u200f",
  unseen: "a\u200bb\u00adc\ufeffd\u0000e\u0085",
  prototype: '{"__proto__": {"hit": 1}, "constructor": 1}',
};
const LONG = 10_000_000;
const ROWS = 100_000;

let server;
let browser;

before(async () => {
  server = await Server.start("hostile", { dev: true });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.kill();
});

async function isHarmless(page, what) {
  assert.equal(await page.evaluate(() => window.hit), undefined, what);
  assert.equal(await page.evaluate(() => ({}).hit), undefined, what);
  const bad = await page.evaluate(() => {
    const links = [...document.querySelectorAll("[href], [src]")];
    const schemes = links.map((one) => (one.getAttribute("href") ?? one.getAttribute("src")).trim());
    const text = document.body.innerText;
    return [
      ...schemes.filter((one) => /^javascript:/i.test(one)),
      ...(/[\u202a-\u202e\u2066-\u2069\u200b\u001b]/.test(text) ? ["an invisible character"] : []),
    ];
  });
  assert.deepEqual(bad, [], what);
  clean(page);
}

test("hostile values are text on every page", async () => {
  const run = await server.ended("echoes", {
    inputs: { text: CASES },
    tags: Object.values(CASES).map((text) => text.replace(/[\u0000-\u001f\u0085]/g, "")),
    metadata: CASES,
  });
  const page = await open(browser);
  await show(page, server, "#/runs");
  await says(page, "onerror", "table");
  await isHarmless(page, "list");
  for (const tab of ["overview&node=echo", "events&seq=0", "calls", "output", "data", "related"]) {
    await page.evaluate((to) => (location.hash = to), `#/runs/${run}?tab=${tab}`);
    await page.waitForSelector(".tabs");
    await isHarmless(page, tab);
  }
  await page.evaluate((to) => (location.hash = to), `#/runs/${run}?tab=data`);
  await says(page, "<script>window.hit = 1; alert(1)</script>");
  await says(page, "\u27e8202E\u27e9");
  await isHarmless(page, "data");
});

test("hostile definitions and questions are text", async () => {
  const text = CASES.script + CASES.direction;
  const definition = {
    id: "evil",
    name: text,
    version: "1.0.0",
    description: text,
    metadata: {},
    settings: {},
    triggers: [],
    variables: [{ name: "a", type: "string", defaultValue: text, description: text }],
    nodes: [
      {
        id: "gate",
        typeId: "core.approvalGate",
        name: text,
        position: { x: 0, y: 0 },
        inputs: { artifactData: { type: "static", value: text } },
        config: { title: text },
      },
    ],
    edges: [],
  };
  await server.api("POST", "/v1/workflows", definition);
  const run = await server.create("evil");
  const page = await open(browser);
  for (const hash of [
    "#/workflows/evil",
    "#/workflows/evil?tab=graph&node=gate",
    "#/workflows/evil?tab=start",
    "#/inbox",
    `#/runs/${run}?node=gate`,
    `#/runs/${encodeURIComponent(CASES.image)}`,
    `#/queues/${encodeURIComponent(CASES.image)}`,
    `#/${encodeURIComponent(CASES.script)}`,
  ]) {
    await show(page, server, hash);
    await page.waitForSelector("main h1, main h2");
    await isHarmless(page, hash);
  }
});

test("values of any size are shown in parts", async () => {
  const rows = Array.from({ length: ROWS }, (_, n) => ({ n, name: `row ${n}` }));
  const value = { long: "x".repeat(200_000), rows: rows.slice(0, 20_000) };
  const run = await server.ended("echoes", { inputs: { text: value } });
  const page = await open(browser);
  await show(page, server, `#/runs/${run}?tab=data`);
  await says(page, "20,000 items");
  await says(page, "more", ".string");
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(nodes < 5_000, `${nodes} elements`);
  clean(page);
});

test("a run is one file that needs no server", async () => {
  const run = await server.ended("echoes", { inputs: { text: CASES } });
  const failed = await server.ended("fails");
  for (const [id, wanted] of [
    [run, "Completed"],
    [failed, "Failed at check: process_failed"],
  ]) {
    const html = server.cli("runs", "bundle", id, "--html", "--server", server.url);
    const path = `${process.env.CONSOLE_LAB}/${id}.html`;
    writeFileSync(path, html);
    const page = await open(browser);
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(pathToFileURL(path).href);
    await says(page, wanted, ".sentence");
    await says(page, "read only", ".link");
    for (const tab of ["events&seq=1", "output", "data", "calls", "related"]) {
      await page.evaluate((to) => (location.hash = to), `#/runs/${id}?tab=${tab}`);
      await page.waitForSelector(".tab, .empty");
      await isHarmless(page, tab);
      assert.deepEqual(await violations(page), [], tab);
    }
    assert.deepEqual(asked.filter((url) => !/^(file|data|blob):/.test(url)), []);
    await isHarmless(page, "offline");
  }
});

test("a log of many events scrolls as rows that are in view", async () => {
  // Events of a file, as a store would take minutes to make them.
  const run = await server.ended("fails");
  const html = server.cli("runs", "bundle", run, "--html", "--server", server.url);
  const [before, rest] = html.split('id="bundle">');
  const [data, after] = rest.split("</script>", 2);
  const bundle = JSON.parse(data);
  const sample = bundle.events[1];
  bundle.events = Array.from({ length: ROWS }, (_, sequence) => ({
    ...sample,
    sequence,
    type: sequence === 0 ? "run.started" : "core.workflowChain.event",
    payload: { name: `event number ${sequence}` },
  }));
  const code = html.slice(html.indexOf("</script>", before.length + 13));
  const path = `${process.env.CONSOLE_LAB}/many.html`;
  const text = JSON.stringify(bundle).replaceAll("<", "\\u003c");
  writeFileSync(path, `${before}id="bundle">${text}${code}`);
  assert.ok(after !== undefined);
  const page = await open(browser);
  await page.goto(`${pathToFileURL(path).href}#/runs/${run}?tab=events`);
  await says(page, "event number 5", ".virtual");
  const shown = () => page.evaluate(() => document.querySelectorAll("button.event").length);
  assert.ok((await shown()) < 120, `${await shown()} rows`);
  await page.$eval(".virtual", (list) => (list.scrollTop = list.scrollHeight));
  await says(page, `event number ${ROWS - 1}`, ".virtual");
  assert.ok((await shown()) < 120, `${await shown()} rows`);
  clean(page);
});

test("a long text is cut until it is asked for", async () => {
  const run = await server.ended("fails");
  const html = server.cli("runs", "bundle", run, "--html", "--server", server.url);
  const at = html.indexOf('id="bundle">') + 'id="bundle">'.length;
  const end = html.indexOf("</script>", at);
  const bundle = JSON.parse(html.slice(at, end));
  bundle.run.variables = { long: "y".repeat(LONG) };
  const path = `${process.env.CONSOLE_LAB}/long.html`;
  writeFileSync(path, html.slice(0, at) + JSON.stringify(bundle) + html.slice(end));
  const page = await open(browser);
  await page.goto(`${pathToFileURL(path).href}#/runs/${run}?tab=data`);
  await says(page, "more", ".string");
  const length = await page.evaluate(() => document.body.innerText.length);
  assert.ok(length < 20_000, `${length} characters`);
  clean(page);
});
