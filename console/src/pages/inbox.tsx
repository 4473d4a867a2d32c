// Every open question, with its form.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Question, call } from "../api";
import { throttled, useChanges } from "../changes";
import { count, plain, short } from "../format";
import { href } from "../route";
import { Button, Empty, Problems, Time } from "../ui";
import { QuestionForm } from "./questions";

/** The least time between two readings. */
const EVERY = 300;

/** The open questions of every run. */
export function InboxPage() {
  const list = useSignal<Question[] | null>(null);
  const next = useSignal<string | null>(null);
  const error = useSignal<unknown>(null);
  const pages = useRef(1);
  const again = useRef<() => void>(() => undefined);
  const read = async () => {
    // As many pages as are shown, so that the rest of the list stays.
    const found: Question[] = [];
    let cursor: string | undefined;
    for (let nth = 0; nth < pages.current; nth++) {
      const page = await call("get", "/v1/interrupts", { query: { limit: 100, cursor } });
      found.push(...page.interrupts);
      cursor = page.nextCursor ?? undefined;
      if (!cursor) break;
    }
    list.value = found;
    next.value = cursor ?? null;
    error.value = null;
  };
  useEffect(() => {
    const reading = throttled(EVERY, () =>
      read().catch((failed: unknown) => {
        error.value = failed;
      }),
    );
    again.current = reading.ask;
    reading.ask();
    return reading.end;
  }, []);
  useChanges(() => again.current());
  const sorted = [...(list.value ?? [])].sort((a, b) => due(a) - due(b));
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Inbox</h1>
        {list.value && (
          <span class="faint">
            {next.value ? "more than " : ""}
            {count(list.value.length, "open question")}
          </span>
        )}
      </header>
      {error.value !== null && <Problems error={error.value} />}
      {list.value?.length === 0 && next.value === null && (
        <Empty title="No run waits for an answer">
          <p>Runs that reach an approval or a question are listed here, the most urgent first.</p>
        </Empty>
      )}
      {sorted.map((question) => {
        const key = question.interruptId ?? `${question.runId} ${question.nodeId}`;
        const run = question.runId ?? "";
        return (
          <article key={key} class="inbox-item">
            <p class="faint">
              {plain(question.workflowId ?? "")} ·{" "}
              <a class="mono" href={href(["runs", run])}>
                {plain(short(run))}
              </a>
              {question.expiresAt && (
                <>
                  {" "}
                  · due <Time at={question.expiresAt} relative />
                </>
              )}
            </p>
            <QuestionForm run={run} question={question} onDone={read} />
          </article>
        );
      })}
      {next.value && (
        <p class="pad">
          <Button
            onClick={async () => {
              pages.current += 1;
              await read();
            }}
          >
            Show more
          </Button>
        </p>
      )}
    </main>
  );
}

function due(question: Question): number {
  return question.expiresAt ? Date.parse(question.expiresAt) : Infinity;
}
