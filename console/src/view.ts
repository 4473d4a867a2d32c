// What the pages show of a run: attempts, waits, calls, output, variables.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Fields = { [name: string]: Json };

export type NodeStatus =
  | "pending"
  | "running"
  | "retrying"
  | "suspended"
  | "completed"
  | "failed"
  | "skipped"
  | "cancelled";

export interface Problem {
  code: string;
  message: string;
  details?: Json;
}

/** One bar of the timeline. */
export interface Attempt {
  node: string;
  visit: number;
  attempt: number;
  typeId: string;
  from: number;
  to: number | null;
  /** When it stopped working to wait for an answer. */
  suspendedAt: number | null;
  outcome: "running" | "completed" | "failed" | "suspended" | "cancelled";
  firstSeq: number;
  lastSeq: number;
  inputs: Json;
  outputs: Json;
  error: Problem | null;
}

/** A stretch in which a node did nothing but wait. */
export interface Wait {
  node: string;
  kind: "retry" | "question" | "child";
  from: number;
  to: number | null;
  label: string;
}

/** A call of a model or of a tool. */
export interface Call {
  kind: "model" | "tool";
  node: string;
  attempt: number;
  visit: number;
  name: string;
  from: number;
  to: number | null;
  seq: number;
  status: "running" | "ok" | "failed";
  input: Json;
  output: Json;
  text: string;
  usage: Fields | null;
  error: Problem | null;
}

/** A piece of output. */
export interface Piece {
  seq: number;
  at: number;
  node: string;
  visit: number;
  attempt: number;
  restart: number;
  channel: string;
  text: string;
}

export interface NodeView {
  id: string;
  status: NodeStatus;
  visits: number;
  attempts: number;
  from: number | null;
  to: number | null;
  error: Problem | null;
  child: string | null;
}

export interface RunView {
  status: string;
  workflowId: string;
  startedAt: number | null;
  endedAt: number | null;
  lastAt: number | null;
  lastSeq: number;
  settled: boolean;
  error: Problem | null;
  failedNode: string | null;
  reason: string;
  inputs: Json;
  outputs: Json;
  nodes: Map<string, NodeView>;
  attempts: Attempt[];
  waits: Wait[];
  calls: Call[];
  output: Piece[];
  logs: { seq: number; at: number; node: string; level: string; message: string }[];
  variables: Map<string, Json>;
  channels: Map<string, Json>;
  artifacts: number;
  tokens: { input: number; output: number };
  usd: number | null;
}

export function emptyView(): RunView {
  return {
    status: "pending",
    workflowId: "",
    startedAt: null,
    endedAt: null,
    lastAt: null,
    lastSeq: -1,
    settled: false,
    error: null,
    failedNode: null,
    reason: "",
    inputs: {},
    outputs: null,
    nodes: new Map(),
    attempts: [],
    waits: [],
    calls: [],
    output: [],
    logs: [],
    variables: new Map(),
    channels: new Map(),
    artifacts: 0,
    tokens: { input: 0, output: 0 },
    usd: null,
  };
}

export function fields(value: Json | undefined): Fields {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

export function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

export function number(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}

export function problem(value: Json | undefined): Problem | null {
  const found = fields(value);
  const code = text(found.code);
  if (!code) return null;
  const made: Problem = { code, message: text(found.message) };
  if (found.details !== undefined) made.details = found.details;
  return made;
}
