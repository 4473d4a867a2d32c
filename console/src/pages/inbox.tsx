// Every open question, with its form.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Question, call } from "../api";
import { count, plain, short } from "../format";
import { href } from "../route";
import { Button, Empty, Problems, Time } from "../ui";
import { QuestionForm } from "./questions";

const EVERY = 2000;

/** The open questions of every run. */
export function InboxPage() {
  const list = useSignal<Question[] | null>(null);
  const next = useSignal<string | null>(null);
  const error = useSignal<unknown>(null);
  const read = async () => {
    const page = await call("get", "/v1/interrupts", { query: { limit: 100 } });
    list.value = page.interrupts;
    next.value = page.nextCursor ?? null;
    error.value = null;
  };
  useEffect(() => {
    let timer = 0;
    let stopped = false;
    const ask = async () => {
      try {
        if (document.visibilityState === "visible") await read();
      } catch (failed) {
        error.value = failed;
      }
      if (!stopped) timer = window.setTimeout(() => void ask(), EVERY);
    };
    void ask();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, []);
  const sorted = [...(list.value ?? [])].sort((a, b) => due(a) - due(b));
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Inbox</h1>
        {list.value && <span class="faint">{count(list.value.length, "open question")}</span>}
      </header>
      {error.value !== null && <Problems error={error.value} />}
      {list.value?.length === 0 && (
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
              const page = await call("get", "/v1/interrupts", {
                query: { limit: 100, cursor: next.value ?? undefined },
              });
              list.value = [...(list.value ?? []), ...page.interrupts];
              next.value = page.nextCursor ?? null;
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
