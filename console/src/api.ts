// Requests to the server. Types come from its OpenAPI document.
import { signal } from "@preact/signals";
import type { components, paths } from "./openapi";

export type Schemas = components["schemas"];
export type Session = Schemas["Session"];
export type RunEvent = Schemas["RunEvent"];
export type RunRow = Schemas["RunRow"];
export type RunSnapshot = Schemas["RunSnapshot"];

export type Question = Schemas["OpenInterrupt"];
export type Graph = Schemas["Graph"];

/** The session of this page. The key itself never reaches a script after signing in. */
export const session = signal<Session | null>(null);

/** Where the tabs of this origin share the session's secret; without the cookie it is worthless. */
const SECRET = "runwright.session";

/** Reads the session again: at the start of the page, and when another tab has changed it. */
export async function readSession(): Promise<void> {
  try {
    session.value = await call("get", "/console/session");
  } catch (error) {
    if (!(error instanceof Failure) || error.status !== 401) throw error;
    session.value = { signedIn: false };
  }
}

export async function signIn(token: string): Promise<void> {
  localStorage.removeItem(SECRET);
  const made = await call("post", "/console/session", { body: { token } });
  if (made.secret) localStorage.setItem(SECRET, made.secret);
  session.value = made;
}

export async function signOut(): Promise<void> {
  await call("delete", "/console/session");
  localStorage.removeItem(SECRET);
  session.value = { signedIn: false };
}

addEventListener("storage", (event) => {
  if (event.key === SECRET) void readSession().catch(() => undefined);
});

/** The address of the server: the folder of this page, so that a proxy may add a prefix. */
const base = new URL(".", location.href).href.replace(/\/$/, "");

/** A refusal or a failed connection. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

type Method = "get" | "post" | "put" | "delete";
type Path = keyof paths & string;
type Operation<P extends Path, M extends Method> = paths[P][M];
type Body<O> = O extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer J } }
    ? J
    : never
  : never;
type Answer<O> = O extends { responses: infer R }
  ? {
      [S in keyof R & (200 | 201)]: R[S] extends { content: { "application/json": infer J } }
        ? J
        : undefined;
    }[keyof R & (200 | 201)]
  : never;

export interface Options<B> {
  path?: Record<string, string>;
  query?: Record<string, string | number | string[] | undefined>;
  body?: B;
  signal?: AbortSignal;
}

/** Sends a request of the API. */
export async function call<P extends Path, M extends Method>(
  method: M,
  path: P,
  options: Options<Body<Operation<P, M>>> = {},
): Promise<Answer<Operation<P, M>>> {
  const response = await send(method, address(path, options), options.body, options.signal);
  if (response.status === 204) return undefined as Answer<Operation<P, M>>;
  return (await response.json()) as Answer<Operation<P, M>>;
}

/** The bytes at an address of the API. */
export async function bytes(path: Path, options: Options<never>): Promise<Blob> {
  const response = await send("get", address(path, options), undefined, options.signal);
  return response.blob();
}

export function address(path: string, options: Options<unknown>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(options.path?.[name] ?? ""),
  );
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  return base + filled + (text ? `?${text}` : "");
}

function headers(): Record<string, string> {
  const secret = localStorage.getItem(SECRET);
  return secret ? { "X-Runwright-Session": secret } : {};
}

async function send(
  method: Method,
  url: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const head = headers();
  const init: RequestInit = { method: method.toUpperCase(), headers: head, cache: "no-cache" };
  if (signal) init.signal = signal;
  if (body !== undefined) {
    head["Content-Type"] = "application/json";
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  if (method !== "get" && !url.endsWith("/session")) head["Idempotency-Key"] = crypto.randomUUID();
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Failure(0, "unreachable", "The server cannot be reached. Is it running?");
  }
  if (!response.ok) throw await refused(response);
  return response;
}

async function refused(response: Response): Promise<Failure> {
  let envelope: { error?: string; message?: string; details?: Record<string, unknown> } = {};
  try {
    envelope = (await response.json()) as typeof envelope;
  } catch {
    // A proxy answered.
  }
  const isSession = response.url.endsWith("/console/session");
  if (response.status === 401 && !isSession && session.value?.signedIn && !session.value.open) {
    // Perhaps another tab has signed in since: the session is asked for before it is given up.
    void readSession().catch(() => undefined);
  }
  return new Failure(
    response.status,
    envelope.error ?? `http_${response.status}`,
    envelope.message ?? `The server answered with status ${response.status}.`,
    envelope.details ?? {},
  );
}

/** Whether the session has a scope. */
export function may(scope: string): boolean {
  const scopes = session.value?.scopes ?? [];
  return scopes.includes("*") || scopes.includes(scope);
}

/** Waits until the page is shown. Hidden pages hold no connection: browsers allow few per host. */
function shown(stop: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      if (document.visibilityState !== "visible" && !stop.aborted) return;
      document.removeEventListener("visibilitychange", end);
      stop.removeEventListener("abort", end);
      resolve();
    };
    document.addEventListener("visibilitychange", end);
    stop.addEventListener("abort", end);
  });
}

/** How long a hidden page keeps its connection, in milliseconds. */
const HIDDEN = 5000;

/** A signal that aborts with another one, and when the page has been hidden for a while. */
function whileShown(stop: AbortSignal): { signal: AbortSignal; end: () => void } {
  const own = new AbortController();
  let timer = 0;
  const abort = () => own.abort();
  const change = () => {
    clearTimeout(timer);
    if (document.visibilityState !== "visible") timer = window.setTimeout(abort, HIDDEN);
  };
  stop.addEventListener("abort", abort);
  document.addEventListener("visibilitychange", change);
  change();
  return {
    signal: own.signal,
    end: () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", abort);
      document.removeEventListener("visibilitychange", change);
    },
  };
}

/** A frame of a stream. */
export interface Frame {
  event: string;
  data: string;
}

/**
 * Follows the events of a run until it ends or the signal aborts. A lost connection is made anew
 * after the last event.
 */
export async function follow(
  run: string,
  after: number,
  stop: AbortSignal,
  onEvents: (events: RunEvent[]) => void,
  onLink: (link: "live" | "lost") => void,
): Promise<void> {
  let last = after;
  let wait = 250;
  while (!stop.aborted) {
    await shown(stop);
    const link = whileShown(stop);
    try {
      const url = address("/v1/runs/{runId}/events", {
        path: { runId: run },
        query: { streamMode: "debug" },
      });
      const head: Record<string, string> = { ...headers(), Accept: "text/event-stream" };
      if (last >= 0) head["Last-Event-ID"] = String(last);
      const init = { headers: head, signal: link.signal, cache: "no-store" as const };
      const response = await fetch(url, init);
      if (!response.ok || !response.body) throw await refused(response);
      onLink("live");
      wait = 250;
      let batch: RunEvent[] = [];
      for await (const frames of framesOf(response.body)) {
        for (const frame of frames) {
          const event = JSON.parse(frame.data) as RunEvent;
          // Annotations have no sequence.
          if (typeof event.sequence === "number" && event.sequence > last) {
            last = event.sequence;
            batch.push(event);
          }
        }
        if (batch.length > 0) onEvents(batch);
        batch = [];
      }
      return;
    } catch (error) {
      if (stop.aborted) return;
      const isFinal = error instanceof Failure && error.status >= 400 && error.status < 500;
      if (isFinal && error.status !== 429 && error.status !== 401) throw error;
      // A page that was hidden reads on where it was.
      if (link.signal.aborted) continue;
      onLink("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 5000);
    } finally {
      link.end();
    }
  }
}

/** Reads a stream of frames until the signal aborts; a lost connection is made anew. */
export async function stream(
  path: Path,
  stop: AbortSignal,
  onFrame: (frame: Frame) => void,
  onLink: (link: "live" | "lost") => void,
): Promise<void> {
  let wait = 250;
  while (!stop.aborted) {
    await shown(stop);
    const link = whileShown(stop);
    try {
      const head: Record<string, string> = { ...headers(), Accept: "text/event-stream" };
      const init = { headers: head, signal: link.signal, cache: "no-store" as const };
      const response = await fetch(address(path, {}), init);
      if (!response.ok || !response.body) throw await refused(response);
      for await (const frames of framesOf(response.body)) {
        onLink("live");
        wait = 250;
        frames.forEach(onFrame);
      }
    } catch {
      // A refusal ends the session elsewhere; this may have been a lost connection.
    } finally {
      link.end();
    }
    if (stop.aborted) return;
    if (link.signal.aborted) continue;
    onLink("lost");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 5000);
  }
}

async function* framesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame[]> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader() as
    ReadableStreamDefaultReader<string>;
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop() ?? "";
    const frames: Frame[] = [];
    for (const part of parts) {
      let event = "message";
      const data: string[] = [];
      for (const line of part.split("\n")) {
        if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
        else if (line.startsWith("event:")) event = line.slice(6).trim();
      }
      if (data.length > 0) frames.push({ event, data: data.join("\n") });
    }
    if (frames.length > 0) yield frames;
  }
}
