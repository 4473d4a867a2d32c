// Values as trees, texts and tables. Large values are shown in parts, so a value of any size
// costs little until it is opened.
import { useSignal } from "@preact/signals";
import type { Json } from "./view";
import { count, plain, size } from "./format";
import { Button, Copy, Text, download } from "./ui";

const SHOWN_ITEMS = 100;
const SHOWN_CHARS = 4000;

export function pretty(value: Json): string {
  return JSON.stringify(value, null, 2);
}

/** A value with its forms: tree, text and, for lists of objects, a table. */
export function Value({ value, name }: { value: Json; name: string }) {
  const rows = asRows(value);
  const form = useSignal<"tree" | "text" | "table">("tree");
  const open = useSignal(SHOWN_CHARS);
  const text = form.value === "text" ? shownText(value) : "";
  return (
    <div class="value">
      <div class="value-bar">
        <div class="segments" role="group" aria-label={`Form of ${name}`}>
          {(["tree", "text", "table"] as const)
            .filter((one) => one !== "table" || rows)
            .map((one) => (
              <button
                key={one}
                type="button"
                aria-pressed={form.value === one}
                onClick={() => (form.value = one)}
              >
                {one}
              </button>
            ))}
        </div>
        <span class="faint">{size(byteLength(value))}</span>
        <Copy label={`Copy ${name}`} value={() => (typeof value === "string" ? value : pretty(value))} />
        <Button
          label={`Download ${name}`}
          onClick={() =>
            download(`${name}.json`, new Blob([pretty(value)], { type: "application/json" }))
          }
        >
          Download
        </Button>
      </div>
      {form.value === "tree" && <Tree value={value} depth={0} />}
      {form.value === "table" && rows && <Table rows={rows} />}
      {form.value === "text" && (
        <pre class="text" tabIndex={0}>
          {plain(text.slice(0, open.value))}
          {text.length > open.value && (
            <More left={text.length - open.value} onMore={() => (open.value *= 4)} />
          )}
        </pre>
      )}
    </div>
  );
}

function shownText(value: Json): string {
  return typeof value === "string" ? value : pretty(value);
}

function byteLength(value: Json): number {
  return typeof value === "string" ? value.length : JSON.stringify(value).length;
}

function More({ left, onMore }: { left: number; onMore: () => void }) {
  return (
    <button type="button" class="more" onClick={onMore}>
      … {count(left, "character")} more
    </button>
  );
}

/** A tree whose branches are made when they are opened. */
export function Tree({ value, depth, name }: { value: Json; depth: number; name?: string }) {
  const open = useSignal(depth < 2);
  const shown = useSignal(SHOWN_ITEMS);
  const label = name === undefined ? null : <span class="key">{plain(name)}</span>;
  if (value === null || typeof value !== "object") {
    return (
      <div class="leaf">
        {label}
        <Leaf value={value} />
      </div>
    );
  }
  const entries = Object.entries(value) as [string, Json][];
  const what = Array.isArray(value)
    ? count(entries.length, "item")
    : count(entries.length, "field");
  if (entries.length === 0) {
    return (
      <div class="leaf">
        {label}
        <span class="faint">{Array.isArray(value) ? "[]" : "{}"}</span>
      </div>
    );
  }
  return (
    <div class="branch">
      <button
        type="button"
        class="twig"
        aria-expanded={open.value}
        onClick={() => (open.value = !open.value)}
      >
        <span class="caret" aria-hidden="true" />
        {label}
        <span class="faint">{what}</span>
      </button>
      {open.value && (
        <div class="leaves">
          {entries.slice(0, shown.value).map(([key, item]) => (
            <Tree key={key} name={key} value={item} depth={depth + 1} />
          ))}
          {entries.length > shown.value && (
            <button type="button" class="more" onClick={() => (shown.value += 1000)}>
              … {(entries.length - shown.value).toLocaleString("en")} more
            </button>
          )}
        </div>
      )}
    </div>
  );
}

function Leaf({ value }: { value: null | boolean | number | string }) {
  const shown = useSignal(600);
  if (typeof value !== "string") return <span class="literal">{String(value)}</span>;
  if (value === "") return <span class="faint">empty text</span>;
  return (
    <span class="string">
      <Text value={value.slice(0, shown.value)} />
      {value.length > shown.value && (
        <More left={value.length - shown.value} onMore={() => (shown.value *= 8)} />
      )}
    </span>
  );
}

function asRows(value: Json): Record<string, Json>[] | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const isRow = (item: Json) => item !== null && typeof item === "object" && !Array.isArray(item);
  return value.every(isRow) ? (value as Record<string, Json>[]) : null;
}

function Table({ rows }: { rows: Record<string, Json>[] }) {
  const shown = useSignal(SHOWN_ITEMS);
  const names = [...new Set(rows.slice(0, 200).flatMap((row) => Object.keys(row)))].slice(0, 24);
  return (
    <div class="scroll" tabIndex={0}>
      <table class="rows">
        <thead>
          <tr>
            {names.map((name) => (
              <th key={name}>{plain(name)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown.value).map((row, at) => (
            <tr key={at}>
              {names.map((name) => (
                <td key={name}>
                  <Cell value={(Object.hasOwn(row, name) ? row[name] : null) ?? null} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.value && (
        <button type="button" class="more" onClick={() => (shown.value += 500)}>
          … {(rows.length - shown.value).toLocaleString("en")} more rows
        </button>
      )}
    </div>
  );
}

function Cell({ value }: { value: Json }) {
  const text = value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return <Text value={text.length > 120 ? `${text.slice(0, 119)}…` : text} />;
}
