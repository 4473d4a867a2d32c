// Output of processes with its colours, and log lines.
import { useSignal } from "@preact/signals";
import { pen, spans } from "../ansi";
import type { Piece, RunView } from "../view";
import { plain } from "../format";
import { Empty, Time } from "../ui";

const SHOWN = 200_000;

export function OutputTab({ view }: { view: RunView }) {
  const node = useSignal("");
  const nodes = [...new Set([...view.output, ...view.logs].map((one) => one.node))];
  const pieces = view.output.filter((one) => node.value === "" || one.node === node.value);
  const logs = view.logs.filter((one) => node.value === "" || one.node === node.value);
  if (nodes.length === 0) {
    return (
      <Empty title="Nothing was written">
        <p>Processes and workers show their output here as they write it.</p>
      </Empty>
    );
  }
  return (
    <div class="tab">
      <label class="filter">
        <span>Node</span>
        <select onChange={(event) => (node.value = event.currentTarget.value)}>
          <option value="">all</option>
          {nodes.map((one) => (
            <option key={one} value={one}>
              {plain(one)}
            </option>
          ))}
        </select>
      </label>
      {pieces.length > 0 && <Lines pieces={pieces} named={node.value === ""} />}
      {logs.length > 0 && (
        <table class="rows">
          <tbody>
            {logs.slice(-2000).map((line) => (
              <tr key={line.seq}>
                <td>
                  <Time at={line.at} />
                </td>
                <td>{plain(line.level)}</td>
                <td>{plain(line.node)}</td>
                <td class="mono">{plain(line.message)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

/** Output as in a terminal; the beginning of very long output is left out. */
export function Lines({ pieces, named = false }: { pieces: Piece[]; named?: boolean }) {
  let length = 0;
  let first = pieces.length;
  while (first > 0 && length < SHOWN) length += pieces[--first]?.text.length ?? 0;
  const pens = new Map<string, ReturnType<typeof pen>>();
  let last = "";
  return (
    <pre class="terminal" tabIndex={0}>
      {first > 0 && <span class="faint">… the beginning is left out{"\n"}</span>}
      {pieces.slice(first).flatMap((piece) => {
        const source = `${piece.node} ${piece.channel}`;
        const state = pens.get(source) ?? pen();
        pens.set(source, state);
        const head = named && piece.node !== last ? [`── ${plain(piece.node)} ──\n`] : [];
        last = piece.node;
        const kept = piece.text.length > SHOWN ? piece.text.slice(-SHOWN) : piece.text;
        return [
          ...head.map((text) => (
            <span key={`h${piece.seq}`} class="faint">
              {text}
            </span>
          )),
          ...spans(kept, state).map((span, at) => (
            <span
              key={`${piece.seq}.${at}`}
              class={`${span.style}${piece.channel === "stderr" ? " err" : ""}` || undefined}
            >
              {plain(span.text.replace(/\r\n?/g, "\n"))}
            </span>
          )),
        ];
      })}
    </pre>
  );
}
