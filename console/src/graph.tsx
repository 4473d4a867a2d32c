// The drawing of a workflow, with the states of a run.
import type { Graph } from "./api";
import type { NodeView } from "./view";
import { duration, plain } from "./format";
import { family } from "./ui";

const SIGNS: Record<string, string> = {
  completed: "M-4.5 .2l3 3 6-6.4",
  failed: "M-3.5-3.5l7 7m0-7-7 7",
  running: "M-2.5-4v8l6-4z",
  waiting: "M0-4.5v5M0 3.6v.4",
  cancelled: "M-4 4l8-8",
  skipped: "M-4 0h8",
  retrying: "M4 0A4 4 0 1 1 2.6-3M3-5.4v2.6H.4",
  pending: "",
};

export function GraphView(props: {
  graph: Graph;
  nodes: Map<string, NodeView>;
  selected: string | null;
  onSelect: (id: string) => void;
}) {
  const { graph, nodes } = props;
  const pad = 14;
  const width = graph.width + 2 * pad;
  const height = graph.height + 2 * pad;
  return (
    <div class="graph scroll" tabIndex={0} role="region" aria-label="Graph of the workflow">
      <svg
        viewBox={`${-pad} ${-pad} ${width} ${height}`}
        width={width}
        height={height}
        role="group"
        aria-label={`Graph of ${plain(graph.name)}`}
      >
        {graph.loops.map((one, at) => (
          <g key={at}>
            <rect class="frame" x={one.x} y={one.y} width={one.width} height={one.height} rx={12} />
            <text class="frame-name" x={one.x + 10} y={one.y + 15}>
              loop ≤ {one.maxRounds}
            </text>
          </g>
        ))}
        {graph.edges.map((edge, at) => {
          const taken = isTaken(edge, nodes);
          return (
            <g key={at} class={`edge${taken ? " taken" : ""}${edge.onFailure ? " on-failure" : ""}`}>
              <path d={edge.path} />
              <path class="tip" d={edge.tip} />
              {edge.label && (
                <text x={edge.labelX} y={edge.labelY + 4}>
                  <title>{plain(edge.label)}</title>
                  {plain(fit(edge.label, 24))}
                </text>
              )}
            </g>
          );
        })}
        {graph.nodes.map((node) => {
          const state = nodes.get(node.id);
          const status = state?.status ?? "pending";
          const kind = family(status);
          const took = state?.from && state.to ? duration(state.to - state.from) : "";
          const badge = note(state);
          const name = fit(node.name, Math.floor((node.width - 50) / 8));
          const type = fit(node.typeId, Math.floor((node.width - 50 - took.length * 6.5) / 6.6));
          // The name of a control begins with what it shows.
          const shown = [name, type, took, badge].filter(Boolean).join(" ");
          const label = props.nodes.size > 0 ? `${shown}, ${status}` : shown;
          const select = () => props.onSelect(node.id);
          return (
            <g
              key={node.id}
              class={`node s-${kind}${props.selected === node.id ? " selected" : ""}${node.disabled ? " off" : ""}`}
              transform={`translate(${node.x} ${node.y})`}
              role="button"
              tabindex={0}
              aria-label={plain(label)}
              aria-pressed={props.selected === node.id}
              onClick={select}
              onKeyDown={(event) => {
                if (event.key === "Enter" || event.key === " ") {
                  event.preventDefault();
                  select();
                }
              }}
            >
              <rect class="box" width={node.width} height={node.height} rx={8} />
              <g transform={`translate(22 ${node.height / 2})`}>
                <circle class="dot" r={props.nodes.size > 0 ? 10 : 4} />
                <path class="glyph" d={SIGNS[kind] ?? ""} />
              </g>
              <text class="name" x={42} y={22}>
                {`${plain(name)} `}
              </text>
              <text class="type" x={42} y={39}>
                {`${plain(type)} `}
              </text>
              {took && (
                <text class="took" x={node.width - 10} y={39}>
                  {`${took} `}
                </text>
              )}
              {badge && (
                <text class="tries" x={node.width - 10} y={-4}>
                  {badge}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function note(state: NodeView | undefined): string {
  if (!state) return "";
  if (state.visits > 1) return `×${state.visits}`;
  return state.attempts > 1 ? `${state.attempts} tries` : "";
}

/** An edge was followed if its source ended and its target began later. */
function isTaken(edge: { source: string; target: string }, nodes: Map<string, NodeView>): boolean {
  const source = nodes.get(edge.source);
  const target = nodes.get(edge.target);
  const ended = source?.status === "completed" || source?.status === "failed";
  return Boolean((ended || (source?.visits ?? 0) > 1) && target?.from);
}

function fit(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}
