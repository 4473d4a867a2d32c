// Calls of models and tools as a conversation.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call as request, may } from "../api";
import { type Call, type Fields, type Json, type RunView, fields, number, text } from "../view";
import { duration, plain } from "../format";
import { Value } from "../json";
import { href } from "../route";
import type { RunModel } from "../run";
import { Empty, Status, Text, Time } from "../ui";

export function CallsTab({ model, view }: { model: RunModel; view: RunView }) {
  const configs = useSignal<Map<string, Fields>>(new Map());
  const workflow = model.snapshot.value?.workflowId ?? "";
  const version = model.graph.value?.version;
  useEffect(() => {
    if (!workflow || model.link.value === "file" || !may("manifest:read")) return;
    request("get", "/v1/workflows/{workflowId}", { path: { workflowId: workflow } })
      .then((definition) => {
        // A later version may ask something else.
        if (definition.version !== version) return;
        const nodes = definition.nodes as { id?: string; config?: Json }[];
        configs.value = new Map(nodes.map((node) => [node.id ?? "", fields(node.config)]));
      })
      .catch(() => undefined);
  }, [workflow, version]);
  if (view.calls.length === 0) {
    return (
      <Empty title="No model or tool was called">
        <p>Calls of model nodes and their tools are shown here with tokens, cost and time.</p>
      </Empty>
    );
  }
  return (
    <ol class="calls">
      {view.calls.map((one) => (
        <li key={`${one.seq} ${one.kind}`} class={`call ${one.kind}`}>
          <header>
            <strong>{plain(one.name)}</strong>
            <Status status={one.status === "ok" ? "completed" : one.status} />
            <span class="faint">
              at <a href={href(["runs", model.id], { node: one.node })}>{plain(one.node)}</a>,{" "}
              <Time at={one.from} />
              {one.to !== null && <> · {duration(one.to - one.from)}</>}
              <Usage of={one} />
            </span>
          </header>
          {one.kind === "model" ? (
            <Conversation call={one} config={configs.value.get(one.node)} />
          ) : (
            <Tool call={one} />
          )}
          {one.error && (
            <div class="problem">
              <code>{plain(one.error.code)}</code> <Text value={one.error.message} />
            </div>
          )}
        </li>
      ))}
    </ol>
  );
}

function Usage({ of }: { of: Call }) {
  const usage = of.usage;
  if (!usage) return null;
  const input = number(usage.inputTokens) || number(usage.promptTokens);
  const output = number(usage.outputTokens) || number(usage.completionTokens);
  const usd = number(usage.costEstimateUsd) || number(usage.usd);
  return (
    <>
      {" "}
      · {input.toLocaleString("en")} tokens in, {output.toLocaleString("en")} out
      {usd > 0 && <> · ${usd.toFixed(4)}</>}
    </>
  );
}

function Conversation({ call, config }: { call: Call; config: Fields | undefined }) {
  const system = fill(text(config?.systemPrompt), call.input);
  const prompt = fill(text(config?.prompt), call.input);
  const messages = Array.isArray(config?.messages) ? config.messages : [];
  return (
    <div class="turns">
      {system && <Turn who="system" said={system} />}
      {messages.map((message, at) => {
        const one = fields(message);
        return <Turn key={at} who={text(one.role) || "user"} said={fill(text(one.content), call.input)} />;
      })}
      {prompt && <Turn who="user" said={prompt} />}
      {!config && (
        <details>
          <summary>Inputs of the node</summary>
          <Value name="inputs" value={call.input} />
        </details>
      )}
      {(call.text || call.status === "running") && (
        <Turn who="model" said={call.text} writing={call.status === "running"} />
      )}
      {call.output !== null && <Value name="json" value={call.output} />}
    </div>
  );
}

function Turn(props: { who: string; said: string; writing?: boolean }) {
  const most = useSignal(4000);
  return (
    <div class={`turn ${props.who}`}>
      <span class="who">{plain(props.who)}</span>
      <div class="said">
        <Text value={props.said.slice(0, most.value)} />
        {props.said.length > most.value && (
          <button type="button" class="more" onClick={() => (most.value *= 8)}>
            … {(props.said.length - most.value).toLocaleString("en")} more characters
          </button>
        )}
        {props.writing && <span class="writing" role="img" aria-label="is being written" />}
      </div>
    </div>
  );
}

function Tool({ call }: { call: Call }) {
  return (
    <div class="turns">
      <details open>
        <summary>Inputs</summary>
        <Value name="inputs" value={call.input} />
      </details>
      {call.output !== null && (
        <details>
          <summary>Result (from outside, not trusted)</summary>
          <Value name="result" value={call.output} />
        </details>
      )}
    </div>
  );
}

/** The text that a template makes of the inputs of its node. */
function fill(template: string, inputs: Json): string {
  const of = fields(inputs);
  return template.replace(/(?<!\$)\$\{inputs\.([^}]+)\}/g, (whole, name: string) => {
    const value = of[name];
    if (value === undefined) return whole;
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}
