// The changes of the list of runs, over one stream for all pages.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { stream } from "./api";

/** Whether changes arrive as they happen. */
export const following = signal<"live" | "lost">("lost");

type Listener = (changed: { runIds: string[]; more: boolean }) => void;

const listeners = new Set<Listener>();
let stop: AbortController | null = null;

/** Calls `listener` when the stream begins and at each change, while the page is shown. */
export function useChanges(listener: Listener): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => {
    const own: Listener = (changed) => latest.current(changed);
    listeners.add(own);
    if (!stop) {
      stop = new AbortController();
      void listen(stop.signal);
    }
    return () => {
      listeners.delete(own);
      if (listeners.size > 0) return;
      stop?.abort();
      stop = null;
    };
  }, []);
}

async function listen(signal: AbortSignal): Promise<void> {
  await stream(
    "/v1/runs:changes",
    signal,
    (frame) => {
      const changed = JSON.parse(frame.data) as { runIds: string[]; more: boolean };
      // Changes before the stream began are unknown.
      if (frame.event === "following") changed.more = true;
      for (const one of [...listeners]) one(changed);
    },
    (link) => (following.value = link),
  );
}

/**
 * Runs `work` after calls of the returned function: at once, and at most once in `every`
 * milliseconds. A call during the work repeats it.
 */
export function throttled(every: number, work: () => Promise<void>): { ask: () => void; end: () => void } {
  let timer = 0;
  let running = false;
  let asked = false;
  let last = 0;
  let over = false;
  const run = async () => {
    timer = 0;
    running = true;
    asked = false;
    last = performance.now();
    await work();
    running = false;
    if (asked && !over) ask();
  };
  const ask = () => {
    asked = true;
    if (over || running || timer) return;
    timer = window.setTimeout(() => void run(), Math.max(0, last + every - performance.now()));
  };
  return {
    ask,
    end: () => {
      over = true;
      clearTimeout(timer);
    },
  };
}
