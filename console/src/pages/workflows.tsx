// Workflows: the list, one with its graph, starting a run, and editing.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Graph, type Schemas, call, may } from "../api";
import { type Fields, fields, text } from "../view";
import { type Entry, type Field, Form, asJson, read } from "../form";
import { plain } from "../format";
import { GraphView } from "../graph";
import { go, href, requery, route } from "../route";
import { Button, Empty, Problems, Tabs, Text, note } from "../ui";

type Row = Schemas["WorkflowList"]["workflows"][number];

export function WorkflowsPage() {
  const list = useSignal<Row[] | null>(null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    call("get", "/v1/workflows")
      .then((page) => (list.value = page.workflows))
      .catch((failed: unknown) => (error.value = failed));
  }, []);
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Workflows</h1>
        <span class="spacer" />
        {may("workflows:write") && (
          <a class="button" href={href(["workflows", "new"])}>
            New workflow
          </a>
        )}
      </header>
      {error.value !== null && <Problems error={error.value} />}
      {list.value?.length === 0 && (
        <Empty title="No workflow is registered">
          <p>Register one here, or from a terminal:</p>
          <pre class="command">runwright workflow put my-workflow.json</pre>
        </Empty>
      )}
      {list.value && list.value.length > 0 && (
        <div class="scroll">
          <table class="rows">
            <thead>
              <tr>
                <th>Workflow</th>
                <th>Version</th>
                <th class="wide">Registered for</th>
                <th>
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.value.map((row) => (
                <tr key={row.workflowId}>
                  <td>
                    <a href={href(["workflows", row.workflowId])}>{plain(row.workflowId)}</a>
                  </td>
                  <td class="mono">{plain(row.version)}</td>
                  <td class="faint wide">{row.shared ? "every tenant" : "this tenant"}</td>
                  <td class="end">
                    <a href={href(["runs"], { workflow: row.workflowId })}>Runs</a>
                    {may("runs:create") && (
                      <>
                        {" "}
                        <a href={href(["workflows", row.workflowId], { tab: "start" })}>Start</a>
                      </>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </main>
  );
}

const NEW = {
  id: "my-workflow",
  name: "My workflow",
  version: "1.0.0",
  metadata: {},
  settings: {},
  triggers: [],
  variables: [{ name: "who", type: "string", defaultValue: "world" }],
  nodes: [
    {
      id: "greet",
      typeId: "runwright.transform",
      name: "Greet",
      position: { x: 0, y: 0 },
      inputs: { who: { type: "variable", variableName: "who" } },
      config: { outputs: { text: "'Hello ' + inputs.who" } },
    },
  ],
  edges: [],
};

export function WorkflowPage({ id }: { id: string }) {
  const isNew = id === "new";
  const definition = useSignal<Fields | null>(isNew ? (NEW as Fields) : null);
  const graph = useSignal<Graph | null>(null);
  const error = useSignal<unknown>(null);
  const saved = useSignal(0);
  const tab = route.value.query.get("tab") ?? (isNew ? "edit" : "graph");
  useEffect(() => {
    if (isNew) return;
    const path = { workflowId: id };
    Promise.all([
      call("get", "/v1/workflows/{workflowId}", { path }),
      call("get", "/v1/workflows/{workflowId}/graph", { path }),
    ])
      .then(([document, drawing]) => {
        definition.value = document as unknown as Fields;
        graph.value = drawing;
      })
      .catch((failed: unknown) => (error.value = failed));
  }, [id, saved.value]);
  const document = definition.value;
  const tabs = isNew
    ? [{ id: "edit", name: "Definition" }]
    : [
        { id: "graph", name: "Graph" },
        ...(may("runs:create") ? [{ id: "start", name: "Start a run" }] : []),
        { id: "edit", name: "Definition" },
      ];
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>
          <Text value={isNew ? "New workflow" : text(document?.name) || id} />
        </h1>
        <span class="faint mono">
          {isNew ? "" : `${plain(id)} ${plain(text(document?.version))}`}
        </span>
        <span class="spacer" />
        {!isNew && (
          <a class="button" href={href(["runs"], { workflow: id })}>
            Its runs
          </a>
        )}
      </header>
      {text(document?.description) && <p class="sentence">{plain(text(document?.description))}</p>}
      {error.value !== null && <Problems error={error.value} />}
      <Tabs
        label="Views of the workflow"
        tabs={tabs}
        current={tab}
        href={(one) => href(["workflows", id], { tab: one })}
      />
      {document && tab === "graph" && graph.value && (
        <GraphWithConfig graph={graph.value} document={document} />
      )}
      {document && tab === "start" && <Start id={id} document={document} />}
      {document && tab === "edit" && (
        <Editor document={document} first={graph.value} onSave={() => (saved.value += 1)} />
      )}
    </main>
  );
}

function GraphWithConfig({ graph, document }: { graph: Graph; document: Fields }) {
  const selected = route.value.query.get("node");
  const nodes = Array.isArray(document.nodes) ? document.nodes : [];
  const node = nodes.find((one) => text(fields(one).id) === selected);
  return (
    <div class={`overview${node ? " with-side" : ""}`}>
      <div class="overview-main">
        <GraphView
          graph={graph}
          nodes={new Map()}
          selected={selected}
          onSelect={(one) => requery({ node: one === selected ? null : one })}
        />
      </div>
      {node !== undefined && (
        <aside class="inspector" aria-label={`Node ${selected ?? ""}`}>
          <header>
            <h2>
              <Text value={text(fields(node).name)} />
            </h2>
            <button type="button" aria-label="Close" onClick={() => requery({ node: null })}>
              ×
            </button>
          </header>
          <pre class="text" tabIndex={0}>
            {plain(JSON.stringify(node, null, 2))}
          </pre>
        </aside>
      )}
    </div>
  );
}

const TYPES: Record<string, string> = {
  string: "string",
  text: "string",
  number: "number",
  integer: "integer",
  boolean: "boolean",
};

function Start({ id, document }: { id: string; document: Fields }) {
  const like = route.value.query.get("like");
  const given = useSignal<Fields | null>(like ? null : {});
  useEffect(() => {
    if (!like) return;
    call("get", "/v1/runs/{runId}", { path: { runId: like } })
      .then((found) => (given.value = fields(found.inputs as Fields | undefined)))
      .catch(() => (given.value = {}));
  }, [like]);
  if (!given.value) return <p class="faint pad">Reading the inputs…</p>;
  return <StartForm id={id} document={document} given={given.value} />;
}

function StartForm(props: { id: string; document: Fields; given: Fields }) {
  const { id, document, given } = props;
  const entries = useSignal<Record<string, Entry>>(
    Object.fromEntries(Object.entries(given).map(([name, value]) => [name, { value }])),
  );
  const tags = useSignal("");
  const wrong = useSignal("");
  const variables = Array.isArray(document.variables) ? document.variables : [];
  const list = variables.map((one): Field => {
    const of = fields(one);
    const type = TYPES[text(of.type)];
    const field: Field = {
      name: text(of.name),
      label: text(of.name),
      schema: type ? { type } : {},
      required: of.required === true,
    };
    if (of.defaultValue !== undefined) field.initial = of.defaultValue;
    const known = given[field.name];
    if (known !== undefined) field.initial = known;
    if (text(of.description)) field.hint = text(of.description);
    return field;
  });
  const start = async () => {
    const inputs = read(list, entries.value);
    if (typeof inputs === "string") {
      wrong.value = inputs;
      return;
    }
    // Defaults are the server's business.
    for (const field of list) if (!(field.name in entries.value)) delete inputs[field.name];
    const words = tags.value.split(/[,\s]+/).filter(Boolean);
    const made = await call("post", "/v1/runs", { body: { workflowId: id, inputs, tags: words } });
    go(href(["runs", made.runId]));
  };
  return (
    <div class="tab narrow-form">
      {list.length === 0 && <p class="faint">This workflow declares no variables.</p>}
      <Form list={list} values={entries} />
      <label class="filter">
        <span>Tags</span>
        <input type="text" onInput={(event) => (tags.value = event.currentTarget.value)} />
      </label>
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
      <Button kind="main" onClick={start}>
        Start
      </Button>
    </div>
  );
}

type Check = Schemas["WorkflowCheck"];

/** The definition as text, checked while it is typed, with its graph. */
function Editor(props: { document: Fields; first: Graph | null; onSave: () => void }) {
  const { document, first } = props;
  const typed = useSignal(JSON.stringify(document, null, 2));
  const checked = useSignal<Check | null>(null);
  const syntax = useSignal("");
  const graph = checked.value?.graph ?? first;
  useEffect(() => {
    const timer = setTimeout(() => {
      const entry = asJson(typed.value);
      syntax.value = "wrong" in entry ? entry.wrong : "";
      if (syntax.value !== "") return;
      call("post", "/v1/workflows:check", { body: typed.value as never })
        .then((found) => (checked.value = found))
        .catch((failed: unknown) => {
          syntax.value = failed instanceof Error ? failed.message : String(failed);
        });
    }, 300);
    return () => clearTimeout(timer);
  }, [typed.value]);
  const save = async () => {
    const made = await call("post", "/v1/workflows", { body: typed.value as never });
    note("done", `Registered ${made.workflowId} ${made.version}`);
    props.onSave();
    go(href(["workflows", made.workflowId]));
  };
  const problems = checked.value?.problems ?? [];
  const warnings = checked.value?.warnings ?? [];
  return (
    <div class="editor">
      <div>
        <label class="hidden" for="definition">
          Definition
        </label>
        <textarea
          id="definition"
          class="mono"
          spellcheck={false}
          readOnly={!may("workflows:write")}
          defaultValue={typed.peek()}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
        {may("workflows:write") && (
          <p class="pad">
            <Button
              kind="main"
              disabled={syntax.value !== "" || checked.value?.valid !== true}
              onClick={save}
            >
              Register
            </Button>{" "}
            <span class="faint">Changed content needs another version.</span>
          </p>
        )}
      </div>
      <div>
        <div aria-live="polite">
          {syntax.value !== "" ? (
            <div class="problem">{plain(syntax.value)}</div>
          ) : (
            <Findings problems={problems} warnings={warnings} />
          )}
        </div>
        {graph && (
          <GraphView graph={graph} nodes={new Map()} selected={null} onSelect={() => undefined} />
        )}
      </div>
    </div>
  );
}

function Findings({ problems, warnings }: { problems: Check["problems"]; warnings: Check["problems"] }) {
  if (problems.length + warnings.length === 0) return <p class="faint pad">No problems.</p>;
  const line = (one: Check["problems"][number], kind: string) => (
    <li key={`${one.path} ${one.message}`} class={kind}>
      {one.line !== undefined && <span class="seq">line {one.line}</span>}{" "}
      <code>{plain(one.path)}</code> {plain(one.message)}
    </li>
  );
  return (
    <ul class="findings">
      {problems.map((one) => line(one, "problem"))}
      {warnings.map((one) => line(one, "warning"))}
    </ul>
  );
}

