// A server of the real program, and a browser that looks at its console.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const program = process.env.RUNWRIGHT;
const folder = process.env.CONSOLE_LAB;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const node = (id, typeId, config, more = {}) => ({
  id,
  typeId,
  name: id,
  position: { x: 0, y: 0 },
  inputs: {},
  config,
  ...more,
});
const flow = (id, nodes, edges, variables = []) => ({
  id,
  name: `Flow ${id}`,
  version: "1.0.0",
  metadata: {},
  settings: {},
  triggers: [],
  variables,
  nodes,
  edges: edges.map(([from, to]) => ({ id: `${from}-${to}`, sourceNodeId: from, targetNodeId: to })),
});
const sh = (id, script, config, more) =>
  node(id, "runwright.process", { argv: ["sh", "-c", script], ...config }, more);

export const FLOWS = [
  flow(
    "fails",
    [
      sh("fetch", "printf '\\033[32mgreen\\033[0m plain\\n'; echo to-stderr >&2"),
      sh("check", "echo no luck; exit 7", {}, {
        settings: { retry: { maxRetries: 1, initialDelayMs: 1 } },
      }),
      node("after", "core.noop", {}),
    ],
    [
      ["fetch", "check"],
      ["check", "after"],
    ],
  ),
  flow(
    "signs",
    [
      node("gate", "core.approvalGate", { title: "Publish the notes?" }),
      node("done", "core.noop", {}),
    ],
    [["gate", "done"]],
  ),
  flow(
    "asks",
    [
      node("ask", "core.clarificationGate", {
        questions: [
          { id: "city", question: "Which city?", schema: { type: "string", enum: ["Oslo", "Rome"] } },
          { id: "people", question: "How many?", schema: { type: "integer", minimum: 1 } },
        ],
      }),
    ],
    [],
  ),
  flow(
    "mends",
    [
      node("first", "core.noop", {}),
      node("write", "runwright.transform", { outputs: { text: "1 / 0" } }),
    ],
    [["first", "write"]],
  ),
  flow(
    "keeps",
    [
      sh("patch", "printf -- '--- a\\n+++ b\\n@@ -1 +1 @@\\n-old\\n+new\\n'", { keepOutput: "always" }),
      sh("facts", "echo '{\"answer\": 42}'", { keepOutput: "always", outputFormat: "json" }),
    ],
    [["patch", "facts"]],
  ),
  flow("waits", [node("delay", "core.delay", { delayMs: 3_600_000 })], []),
  flow(
    "greets",
    [
      node("greet", "runwright.transform", { outputs: { text: "'Hello ' + inputs.who" } }, {
        inputs: { who: { type: "variable", variableName: "who" } },
      }),
    ],
    [],
    [
      { name: "who", type: "string", defaultValue: "world", description: "Whom to greet" },
      { name: "times", type: "number", defaultValue: 2 },
    ],
  ),
  flow(
    "echoes",
    [
      node("echo", "core.identity", {}, {
        inputs: { text: { type: "variable", variableName: "text" } },
      }),
    ],
    [],
    [{ name: "text", type: "object" }],
  ),
];

export class Server {
  static async start(name, { listen = "127.0.0.1:0", dev = false } = {}) {
    const server = new Server();
    server.data = `${folder}/${name}`;
    const flows = `${folder}/flows`;
    mkdirSync(flows, { recursive: true });
    for (const one of FLOWS) writeFileSync(`${flows}/${one.id}.json`, JSON.stringify(one));
    const args = ["serve", "--data", server.data, "--listen", listen, "--workflows", flows];
    server.child = spawn(program, dev ? [...args, "--dev"] : args, {
      cwd: folder,
      stdio: ["ignore", "pipe", "ignore"],
    });
    [server.url] = await once(createInterface(server.child.stdout), "line");
    server.key = dev ? null : server.newKey("acme");
    return server;
  }

  newKey(tenant, ...more) {
    return this.cli("keys", "create", "--data", this.data, "--tenant", tenant, ...more).trim();
  }

  cli(...args) {
    return execFileSync(program, args, { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28 });
  }

  async api(method, path, body, key = this.key) {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...(key ? { authorization: `Bearer ${key}` } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    assert.ok(response.ok, `${method} ${path}: ${response.status}`);
    return response.status === 204 ? null : response.json();
  }

  async create(workflowId, more = {}) {
    return (await this.api("POST", "/v1/runs", { workflowId, ...more })).runId;
  }

  /** A run that has ended. */
  async ended(workflowId, more) {
    const run = await this.create(workflowId, more);
    // The stream ends with the run.
    const headers = this.key ? { authorization: `Bearer ${this.key}` } : {};
    await (await fetch(`${this.url}/v1/runs/${run}/events`, { headers })).text();
    return run;
  }

  async kill() {
    const gone = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await gone;
  }
}

export async function launch() {
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--lang=en-US",
    ],
    userDataDir: `${folder}/profile`,
    protocolTimeout: 120_000,
  });
  return browser;
}

/** A page of a fresh profile. Whatever goes wrong in it fails the test. */
export async function open(browser) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.setViewport({ width: 1400, height: 900 });
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    page.faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy|TrustedHTML|Refused to/.test(message.text())) {
      page.faults.push(`policy: ${message.text()}`);
    }
  });
  return page;
}

/** Goes to a page of the console. */
export async function show(page, server, hash) {
  await page.goto(`${server.url}/console${hash}`, { waitUntil: "load" });
  await page.evaluate((to) => {
    if (location.hash !== to) location.hash = to;
  }, hash);
}

export async function signIn(page, server, key = server.key, hash = "#/runs") {
  await show(page, server, hash);
  await page.waitForSelector("#token");
  await page.type("#token", key);
  await page.keyboard.press("Enter");
  await page.waitForSelector("nav.nav");
}

/** Waits until the page shows a text. */
export async function says(page, text, selector = "body") {
  await page
    .waitForFunction(
      (wanted, where) =>
        [...document.querySelectorAll(where)].some((one) => one.innerText.includes(wanted)),
      {},
      text,
      selector,
    )
    .catch(async (error) => {
      const shown = await page.evaluate(() => document.body.innerText);
      throw new Error(`no ${JSON.stringify(text)} in ${selector}: ${shown.slice(0, 3000)}`, {
        cause: error,
      });
    });
}

/** Clicks the button or link with a name. */
export async function press(page, name, within = "body") {
  await page.waitForFunction(
    (wanted, where) =>
      [...document.querySelectorAll(`${where} button, ${where} a`)].some(
        (one) => (one.getAttribute("aria-label") ?? (one.innerText || one.textContent).split("\n")[0]).trim() === wanted && !one.disabled,
      ),
    {},
    name,
    within,
  );
  await page.evaluate(
    (wanted, where) => {
      const all = [...document.querySelectorAll(`${where} button, ${where} a`)];
      all
        .find((one) => (one.getAttribute("aria-label") ?? (one.innerText || one.textContent).split("\n")[0]).trim() === wanted)
        .click();
    },
    name,
    within,
  );
}

/** The rules of accessibility that a page breaks. */
export async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations"] }),
  );
  return found.violations.map((one) => {
    const nodes = one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`);
    return `${one.id}: ${nodes.join(" | ")}`;
  });
}

export function clean(page) {
  assert.deepEqual(page.faults, []);
}
