// A palette of commands: ctrl-K, or slash.
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type RunRow, call, may } from "./api";
import { plain, short } from "./format";
import { go, href } from "./route";
import { Dialog } from "./ui";

export const palette = signal(false);

interface Command {
  name: string;
  hint: string;
  to: string;
}

const PAGES: Command[] = [
  { name: "Runs", hint: "g r", to: href(["runs"]) },
  { name: "Inbox", hint: "g i", to: href(["inbox"]) },
  { name: "Workflows", hint: "g w", to: href(["workflows"]) },
  { name: "Queues", hint: "g q", to: href(["queues"]) },
  { name: "Webhooks", hint: "g h", to: href(["webhooks"]) },
  { name: "Spending", hint: "g p", to: href(["spending"]) },
  { name: "Keys", hint: "", to: href(["server", "keys"]) },
  { name: "Audit trail", hint: "", to: href(["server", "audit"]) },
  { name: "Server", hint: "g s", to: href(["server"]) },
  { name: "Failed runs", hint: "", to: href(["runs"], { status: "failed" }) },
  {
    name: "Runs that wait for an answer",
    hint: "",
    to: href(["runs"], { status: ["waiting-approval", "waiting-input", "waiting-external"] }),
  },
];

/** Keys of every page. */
export function listen(): () => void {
  let pending = "";
  const keys = new Map(PAGES.filter((page) => page.hint).map((page) => [page.hint, page.to]));
  const on = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      palette.value = !palette.value;
      return;
    }
    const target = event.target as HTMLElement | null;
    const typing = target?.matches("input, textarea, select, [contenteditable]") ?? false;
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      palette.value = true;
      return;
    }
    const to = keys.get(`${pending} ${event.key}`);
    pending = pending === "" && event.key === "g" ? "g" : "";
    if (to) go(to);
  };
  addEventListener("keydown", on);
  return () => removeEventListener("keydown", on);
}

export function Palette() {
  const typed = useSignal("");
  const at = useSignal(0);
  const runs = useSignal<RunRow[]>([]);
  const workflows = useSignal<string[]>([]);
  useEffect(() => {
    call("get", "/v1/runs", { query: { limit: 20 } })
      .then((page) => (runs.value = page.runs))
      .catch(() => undefined);
    if (may("manifest:read")) {
      call("get", "/v1/workflows")
        .then((page) => (workflows.value = page.workflows.map((one) => one.workflowId)))
        .catch(() => undefined);
    }
  }, []);
  const close = () => (palette.value = false);
  const needle = typed.value.trim().toLowerCase();
  const all: Command[] = [
    ...PAGES,
    ...workflows.value.map((id) => ({
      name: id,
      hint: "workflow",
      to: href(["workflows", id]),
    })),
    ...runs.value.map((row) => ({
      name: `${row.workflowId} ${short(row.runId)}`,
      hint: row.status,
      to: href(["runs", row.runId]),
    })),
  ];
  const shown = all.filter((one) => one.name.toLowerCase().includes(needle)).slice(0, 12);
  if (/^run[-_]/.test(typed.value.trim())) {
    const id = typed.value.trim();
    shown.unshift({ name: id, hint: "open run", to: href(["runs", id]) });
  }
  const picked = Math.min(at.value, shown.length - 1);
  const choose = (command: Command | undefined) => {
    if (!command) return;
    close();
    go(command.to);
  };
  return (
    <Dialog title="Go to" onClose={close}>
      <input
        type="text"
        list={undefined}
        class="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={picked >= 0 ? `palette-${picked}` : undefined}
        aria-label="Page, workflow or run"
        autoFocus
        placeholder="Page, workflow or run"
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") at.value = Math.min(picked + 1, shown.length - 1);
          else if (event.key === "ArrowUp") at.value = Math.max(picked - 1, 0);
          else if (event.key === "Enter") choose(shown[picked]);
          else return;
          event.preventDefault();
        }}
      />
      <div id="palette-list" role="listbox" aria-label="Results" class="palette-list">
        {shown.map((command, index) => (
          <div
            key={command.to}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === picked}
            onClick={() => choose(command)}
          >
            {plain(command.name)} <span class="faint">{command.hint}</span>
          </div>
        ))}
      </div>
    </Dialog>
  );
}
