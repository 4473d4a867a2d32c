// One run as the pages see it: from the server and live, or from a file.
import { type ReadonlySignal, computed, signal } from "@preact/signals";
import { type Graph, type RunEvent, type RunSnapshot, call, follow } from "./api";
import { Fold, foldAll } from "./fold";
import { type RunView, emptyView } from "./view";

/** The content of an offline page. */
export interface Bundle {
  run: RunSnapshot;
  events: RunEvent[];
  graph: Graph | null;
  madeAt: string;
  /** Why the file does not have all of the run. */
  note?: string | null;
}

const ENDED = new Set(["run.completed", "run.failed", "run.cancelled"]);

/** The time between two drawings of a log that is still read, in milliseconds. */
const REDRAW = 250;

export class RunModel {
  readonly snapshot = signal<RunSnapshot | null>(null);
  readonly graph = signal<Graph | null>(null);
  readonly link = signal<"loading" | "live" | "lost" | "ended" | "file">("loading");
  readonly error = signal<unknown>(null);
  /** Every event so far. The array grows in place; `version` counts the additions. */
  readonly events: RunEvent[] = [];
  readonly version = signal(0);
  /** The event at which the pages look, or null for the present. */
  readonly at = signal<number | null>(null);
  readonly view: ReadonlySignal<RunView>;
  private readonly stop = new AbortController();
  private asked = 0;
  private answered = 0;
  private readonly present = emptyView();
  private readonly fold = new Fold(this.present);

  constructor(
    readonly id: string,
    bundle?: Bundle,
  ) {
    this.view = computed(() => {
      void this.version.value;
      const at = this.at.value;
      // A new object, so that readers see that it changed.
      return at === null ? { ...this.present } : foldAll(this.events, at);
    });
    if (bundle) {
      this.snapshot.value = bundle.run;
      this.graph.value = bundle.graph;
      this.add(bundle.events);
      this.version.value += 1;
      this.link.value = "file";
    } else {
      void this.load();
    }
  }

  close(): void {
    this.stop.abort();
  }

  /** Reads the snapshot again: it has what events do not tell, such as open questions. */
  async refresh(): Promise<void> {
    const nth = ++this.asked;
    const found = await call("get", "/v1/runs/{runId}", { path: { runId: this.id } });
    // A later request may have been answered before.
    if (nth < this.answered) return;
    this.answered = nth;
    this.snapshot.value = found;
  }

  private async load(): Promise<void> {
    try {
      const path = { runId: this.id };
      const graph = call("get", "/v1/runs/{runId}/graph", { path }).catch(() => null);
      await this.refresh();
      await this.backlog();
      this.graph.value = await graph;
      // Something may have happened while the events were read.
      await this.refresh();
      if (this.isOver()) {
        this.link.value = "ended";
        return;
      }
      await this.live();
    } catch (error) {
      if (!this.stop.signal.aborted) this.error.value = error;
    }
  }

  /** The existing events, a page at a time. */
  private async backlog(): Promise<void> {
    let shown = 0;
    for (;;) {
      const last = this.events.at(-1)?.sequence;
      const query = { timeout: 0, lastSequence: last };
      const page = await call("get", "/v1/runs/{runId}/events/poll", {
        path: { runId: this.id },
        query,
        signal: this.stop.signal,
      });
      const done = page.events.length === 0 || page.isComplete || page.lastEventSeq === last;
      this.add(page.events);
      if (done || Date.now() - shown > REDRAW) {
        this.version.value += 1;
        shown = Date.now();
      }
      if (done) return;
    }
  }

  private async live(): Promise<void> {
    // A server that is stopped ends its streams in order; the run goes on under the next one.
    while (!this.stop.signal.aborted) {
      await follow(
        this.id,
        this.events.at(-1)?.sequence ?? -1,
        this.stop.signal,
        (events) => {
          this.add(events);
          this.version.value += 1;
        },
        (link) => {
          this.link.value = link;
          if (link === "live") this.later();
        },
      );
      if (this.stop.signal.aborted) return;
      if (this.isOver()) {
        this.link.value = "ended";
        this.later();
        return;
      }
      this.link.value = "lost";
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  /** Whether the log has its end. */
  isOver(): boolean {
    const last = this.events.at(-1);
    return last !== undefined && ENDED.has(last.type);
  }

  private add(events: RunEvent[]): void {
    if (events.length === 0) return;
    let asks = false;
    for (const event of events) {
      this.events.push(event);
      this.fold.apply(event);
      asks ||= /^(interrupt|node\.(suspended|resumed)|run)\b/.test(event.type);
    }
    if (asks && this.link.value === "live") this.later();
  }

  /** Refreshes; a failure leaves the page as it is. */
  private later(): void {
    void this.refresh().catch(() => undefined);
  }
}
