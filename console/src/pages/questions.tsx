// Open questions of a run, with a form made from what the question takes.
import { useSignal } from "@preact/signals";
import { type Question, call, may } from "../api";
import { type Fields, type Json, fields, text } from "../view";
import { type Entry, type Field, Form, asJson, fieldsOf, read } from "../form";
import { plain, short } from "../format";
import { Value } from "../json";
import type { RunModel } from "../run";
import { Button, Text, Time, note } from "../ui";

export function Questions({ model }: { model: RunModel }) {
  const open = model.snapshot.value?.interrupts ?? [];
  if (model.at.value !== null) return null;
  return (
    <>
      {open.map((question) => (
        <QuestionForm
          key={question.interruptId ?? question.nodeId}
          run={model.id}
          question={question}
          onDone={() => model.refresh()}
        />
      ))}
    </>
  );
}

export function QuestionForm(props: {
  run: string;
  question: Question;
  onDone: () => void | Promise<void>;
}) {
  const { run, question } = props;
  const data = fields(question.payload.data as Json);
  const title =
    text(data.title) || text(data.question) || text(data.prompt) || TITLES[question.kind] || "A question";
  const rest = Object.fromEntries(
    Object.entries(data).filter(([name, value]) => !SHOWN.has(name) && value !== null),
  );
  const send = async (value: Json) => {
    const path = { runId: run, nodeId: question.nodeId };
    await call("post", "/v1/runs/{runId}/interrupts/{nodeId}", {
      path,
      // An answer is for the question that is on the page, not for a later one of its node.
      body: { resumeValue: value, interruptId: question.interruptId ?? null },
    });
    note("done", "Answered");
    await props.onDone();
  };
  return (
    <section class="question" aria-label={`Question of ${question.nodeId} in run ${short(run)}`}>
      <header>
        <h2>
          <Text value={title} />
        </h2>
        <span class="faint">
          {plain(question.nodeId)} asks since <Time at={question.requestedAt ?? null} />
          {question.expiresAt && (
            <>
              {" "}
              · time is over <Time at={question.expiresAt} relative />
            </>
          )}
        </span>
      </header>
      {text(data.description) && (
        <p class="said">
          <Text value={text(data.description)} />
        </p>
      )}
      {data.artifactData !== undefined && data.artifactData !== null && (
        <Shown value={data.artifactData} />
      )}
      {Object.keys(rest).length > 0 && <Value name="question" value={rest} />}
      {may("approvals:respond") ? (
        <Answer question={question} data={data} send={send} />
      ) : (
        <p class="faint">To answer, sign in with a key that has the scope approvals:respond.</p>
      )}
    </section>
  );
}

const TITLES: Record<string, string> = {
  "low-confidence": "May this decision be carried out?",
};

/** Members of a question that the page shows in a form of their own. */
const SHOWN = new Set([
  "title", "question", "prompt", "description", "artifactData", "artifactId", "artifactType",
  "actions", "questions",
]);

/** What is to be judged: text as it is, anything else as a value. */
function Shown({ value }: { value: Json }) {
  if (typeof value === "string" && value.length < 20_000) {
    return (
      <blockquote class="said">
        <Text value={value} />
      </blockquote>
    );
  }
  return <Value name="subject" value={value} />;
}

const ACTIONS: Record<string, string> = {
  accept: "Accept",
  reject: "Reject",
  refine: "Ask for changes",
  "edit-accept": "Accept as edited",
};

function Answer(props: { question: Question; data: Fields; send: (value: Json) => Promise<void> }) {
  const { question, data, send } = props;
  const comment = useSignal("");
  const entries = useSignal<Record<string, Entry>>({});
  const wrong = useSignal("");
  const edited = useSignal(JSON.stringify(data.artifactData ?? null, null, 2));
  if (question.kind === "approval" || question.kind === "low-confidence") {
    const actions = (Array.isArray(data.actions) ? data.actions : ["accept", "reject"]).filter(
      (one) => typeof one === "string",
    );
    const answer = (action: string) => {
      const value: Fields = { action };
      const said = comment.value.trim();
      if (said) value.comment = said;
      if (action === "refine") {
        if (!said) throw new Error("Say in the comment what is to be changed.");
        value.refineFeedback = { scope: "whole", text: said };
      }
      if (action === "edit-accept") {
        const entry = asJson(edited.value);
        if ("wrong" in entry) throw new Error(`The edited content is not JSON: ${entry.wrong}`);
        value.editedArtifactData = entry.value ?? null;
      }
      return send(value);
    };
    return (
      <div class="answer">
        {actions.includes("edit-accept") && (
          <label class="edited">
            <span>Content, to be edited (JSON)</span>
            <textarea
              rows={6}
              class="mono"
              spellcheck={false}
              defaultValue={edited.peek()}
              onInput={(event) => (edited.value = event.currentTarget.value)}
            />
          </label>
        )}
        <label class="filter grow">
          <span>Comment</span>
          <input type="text" onInput={(event) => (comment.value = event.currentTarget.value)} />
        </label>
        {actions.map((action) => (
          <Button
            key={action}
            kind={action === "accept" ? "main" : action === "reject" ? "danger" : "plain"}
            onClick={async () => answer(action)}
          >
            {ACTIONS[action] ?? plain(action)}
          </Button>
        ))}
      </div>
    );
  }
  const { list, wrap } = formOf(question, data);
  const submit = async () => {
    const found = read(list, entries.value);
    if (typeof found === "string") {
      wrong.value = found;
      return;
    }
    wrong.value = "";
    await send(wrap(found));
  };
  return (
    <form
      class="answer-form"
      onSubmit={(event) => {
        event.preventDefault();
      }}
    >
      <Form list={list} values={entries} />
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
      <Button kind="main" onClick={submit}>
        Answer
      </Button>
    </form>
  );
}

/** The fields of an answer, and how they become its value. */
function formOf(question: Question, data: Fields): { list: Field[]; wrap: (of: Fields) => Json } {
  if (Array.isArray(data.questions)) {
    const list = data.questions.map((one): Field => {
      const asked = fields(one);
      return {
        name: text(asked.id),
        label: text(asked.question) || text(asked.id),
        schema: Object.keys(fields(asked.schema)).length > 0 ? fields(asked.schema) : { type: "string" },
        required: asked.optional !== true,
      };
    });
    return { list, wrap: (answers) => ({ answers }) };
  }
  const schema = question.payload.resumeSchema as Json | undefined;
  const properties = fieldsOf(schema ?? null);
  if (properties.length > 0) return { list: properties, wrap: (of) => of };
  const own: Field = { name: "value", label: "Answer", schema: fields(schema), required: true };
  return { list: [own], wrap: (of) => of.value ?? null };
}
