// Small parts of every page.
import { signal, useSignal } from "@preact/signals";
import { Component, type ComponentChildren, type JSX } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Failure } from "./api";
import { ago, plain, time, utc } from "./format";

/** Shapes by state, so that states differ in more than colour. Drawn in a 16 by 16 box. */
const SHAPES: Record<string, string> = {
  completed: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM4.5 8.2l2.4 2.4 4.6-5",
  failed: "M2.5 1.5h11v13h-11zM5.5 5.5l5 5m0-5-5 5",
  running: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM6.5 5v6l4.5-3z",
  waiting: "M8 .8 15.2 8 8 15.2.8 8ZM8 4.5v4.2M8 11v.2",
  paused: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM6.3 5.3v5.4M9.7 5.3v5.4",
  cancelled: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM3.5 12.5l9-9",
  pending: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Z",
  skipped: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM4.5 8h7",
  retrying: "M13.5 8A5.5 5.5 0 1 1 11.6 3.8M11.8 1v3h-3",
};

/** The family of a status: its shape and its colour. */
export function family(status: string): string {
  if (status.startsWith("waiting") || status === "suspended") return "waiting";
  if (status === "cancelling") return "cancelled";
  return status in SHAPES ? status : "pending";
}

export function Sign({ status }: { status: string }) {
  const kind = family(status);
  return (
    <svg class={`sign s-${kind}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[kind] ?? ""} />
    </svg>
  );
}

export function Status({ status }: { status: string }) {
  return (
    <span class={`status s-${family(status)}`}>
      <Sign status={status} />
      {status.replace("-", " ")}
    </span>
  );
}

/** A time in the viewer's zone; UTC in the tooltip. */
export function Time({ at, relative = false }: { at: number | string | null; relative?: boolean }) {
  if (at === null) return <span class="faint">–</span>;
  const ms = typeof at === "string" ? Date.parse(at) : at;
  return (
    <time dateTime={new Date(ms).toISOString()} title={utc(ms)}>
      {relative ? ago(ms) : time(ms)}
    </time>
  );
}

/** Text from outside, with invisible characters shown. */
export function Text({ value }: { value: string }) {
  return <bdi>{plain(value)}</bdi>;
}

export function Button(
  props: {
    onClick: () => void | Promise<void>;
    children: ComponentChildren;
    kind?: "plain" | "main" | "danger";
    disabled?: boolean;
    title?: string;
    label?: string;
  },
): JSX.Element {
  const busy = useSignal(false);
  const run = async () => {
    busy.value = true;
    try {
      await props.onClick();
    } catch (error) {
      report(error);
    } finally {
      busy.value = false;
    }
  };
  return (
    <button
      type="button"
      class={`button ${props.kind ?? "plain"}`}
      disabled={props.disabled || busy.value}
      title={props.title}
      aria-label={props.label}
      onClick={() => void run()}
    >
      {props.children}
    </button>
  );
}

/** Messages at the edge of the page. */
const notes = signal<{ id: number; kind: "error" | "done"; text: string }[]>([]);
let noted = 0;

export function note(kind: "error" | "done", text: string): void {
  const id = ++noted;
  notes.value = [...notes.value.slice(-3), { id, kind, text }];
  if (kind === "done") setTimeout(() => dismiss(id), 4000);
}

export function report(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  note("error", words(error));
}

/** An error for a person. */
export function words(error: unknown): string {
  if (error instanceof Failure) return plain(error.message);
  return error instanceof Error ? error.message : String(error);
}

function dismiss(id: number): void {
  notes.value = notes.value.filter((one) => one.id !== id);
}

/** Forgets every message: they belong to the session that caused them. */
export function clearNotes(): void {
  notes.value = [];
}

/** Shows an error of a page in its place, so that the rest stays usable. */
export class Boundary extends Component<{ children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };
  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }
  render() {
    if (!this.state.failed) return this.props.children;
    return (
      <main class="page" id="main">
        <Empty title="This page cannot be shown">
          <p>Its content confused the console. Reload it, or report this with the run's bundle.</p>
        </Empty>
      </main>
    );
  }
}

export function Notes() {
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.value.map((one) => (
        <div key={one.id} class={`note ${one.kind}`}>
          <span>{one.text}</span>
          <button type="button" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

/** What a page shows instead of content. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Problems({ error }: { error: unknown }) {
  return (
    <div class="problem" role="alert">
      {words(error)}
    </div>
  );
}

/** A modal dialog. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the first paint, so that the focus is never on the page below.
  useLayoutEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      class={props.wide ? "broad" : undefined}
      onClose={props.onClose}
      onClick={(event) => {
        if (event.target === ref.current) ref.current?.close();
      }}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{props.title}</h2>
          <button type="button" aria-label="Close" onClick={() => ref.current?.close()}>
            ×
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** Actions that are needed rarely. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDetailsElement>(null);
  const close = () => {
    if (ref.current) ref.current.open = false;
  };
  return (
    <details
      ref={ref}
      class="menu"
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) close();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") close();
      }}
    >
      <summary class="button plain">{label}</summary>
      <div class="menu-list" onClick={close}>
        {children}
      </div>
    </details>
  );
}

export function Copy({ value, label }: { value: () => string; label: string }) {
  return (
    <Button
      label={label}
      title={label}
      onClick={async () => {
        await navigator.clipboard.writeText(value());
        note("done", "Copied");
      }}
    >
      Copy
    </Button>
  );
}

export function download(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Tabs that are links, so that each has an address. */
export function Tabs(props: {
  label: string;
  tabs: { id: string; name: string; badge?: number }[];
  current: string;
  href: (id: string) => string;
}) {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map((tab) => (
        <a
          key={tab.id}
          href={props.href(tab.id)}
          aria-current={tab.id === props.current ? "page" : undefined}
        >
          {tab.name}
          {tab.badge ? <span class="badge">{tab.badge.toLocaleString("en")}</span> : null}
        </a>
      ))}
    </nav>
  );
}
