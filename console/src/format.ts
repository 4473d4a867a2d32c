// Times, durations, sizes and texts for people.
import { signal } from "@preact/signals";

/** The present, for texts such as "2 min ago". It moves once a second. */
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 1000);

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayOfYear = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
});

/** A time in the viewer's zone: the day is left out for today. */
export function time(ms: number): string {
  const date = new Date(ms);
  const today = new Date(now.peek());
  const shown = clock.format(date);
  if (date.toDateString() === today.toDateString()) return shown;
  const same = date.getFullYear() === today.getFullYear();
  return `${(same ? day : dayOfYear).format(date)}, ${shown}`;
}

/** A time in UTC, for a tooltip. */
export function utc(ms: number): string {
  return new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC");
}

/** A duration, as short as is useful. */
export function duration(ms: number): string {
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} days`;
}

/** The distance of a time from now. */
export function ago(ms: number): string {
  const past = now.value - ms;
  if (Math.abs(past) < 2000) return "now";
  const far = coarse(Math.abs(past));
  return past > 0 ? `${far} ago` : `in ${far}`;
}

function coarse(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** The end of an id, which differs between runs of one moment. */
export function short(id: string): string {
  return id.length > 14 ? `…${id.slice(-8)}` : id;
}

/**
 * Characters that change how the text around them is shown: controls, bidirectional overrides,
 * invisible marks. They are shown by their number.
 */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;

/** A text in which nothing is invisible. */
export function plain(value: string): string {
  return value.replace(
    HIDDEN,
    (c) => `\u27e8${c.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0") ?? ""}\u27e9`,
  );
}
