// Spending on models, by day, workflow and model.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Schemas, call } from "../api";
import { count, plain } from "../format";
import { href, requery, route } from "../route";
import { Empty, Problems } from "../ui";

type Costs = Schemas["Costs"];
type Used = Schemas["ModelUse"];

const PERIODS: [string, number][] = [
  ["7 days", 7],
  ["30 days", 30],
  ["90 days", 90],
];
const GROUPS: ["day" | "workflow" | "model", string][] = [
  ["day", "By day"],
  ["workflow", "By workflow"],
  ["model", "By model"],
];

export function CostsPage() {
  const days = Number(route.value.query.get("days")) || 30;
  const found = useSignal<Costs[] | null>(null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    let over = false;
    const from = new Date(Date.now() - days * 86_400_000);
    from.setUTCHours(0, 0, 0, 0);
    const createdAfter = from.toISOString();
    const ask = (by: string) => call("get", "/v1/costs", { query: { by, createdAfter } });
    Promise.all(GROUPS.map(([by]) => ask(by)))
      .then((all) => {
        if (!over) found.value = all;
      })
      .catch((failed: unknown) => {
        if (!over) error.value = failed;
      });
    return () => void (over = true);
  }, [days]);
  const all = found.value;
  const total = all?.[0]?.total;
  return (
    <main class="page" id="main">
      <header class="page-head">
        <h1>Spending</h1>
        {all?.[0] && (
          <span class="faint">
            {all[0].complete ? "" : "the latest "}
            {count(all[0].runs, "run")}
          </span>
        )}
        <span class="spacer" />
        <div class="segments" role="group" aria-label="Period">
          {PERIODS.map(([name, length]) => (
            <button
              key={length}
              type="button"
              aria-pressed={length === days}
              onClick={() => requery({ days: String(length) })}
            >
              {name}
            </button>
          ))}
        </div>
      </header>
      {error.value !== null && <Problems error={error.value} />}
      {!all && error.value === null && <p class="faint pad">Adding up…</p>}
      {all && total && total.calls === 0 && (
        <Empty title="No model was called in this time">
          <p>Calls of models appear here with their tokens and estimated costs.</p>
        </Empty>
      )}
      {all && total && total.calls > 0 && (
        <div class="sections">
          <dl class="facts">
            <div>
              <dt>Cost</dt>
              <dd class="big">{money(total)}</dd>
            </div>
            <div>
              <dt>Calls</dt>
              <dd class="big">{total.calls.toLocaleString("en")}</dd>
            </div>
            <div>
              <dt>Tokens</dt>
              <dd class="big">
                {total.inputTokens.toLocaleString("en")} in, {total.outputTokens.toLocaleString("en")} out
              </dd>
            </div>
          </dl>
          {GROUPS.map(([by, title], at) => {
            const costs = all[at];
            return costs ? <Group key={by} by={by} title={title} costs={costs} /> : null;
          })}
        </div>
      )}
    </main>
  );
}

function Group({ by, title, costs }: { by: string; title: string; costs: Costs }) {
  const size = (used: Used) => dollars(used) || used.totalTokens / 1e9;
  const groups = [...costs.groups];
  if (by === "day") groups.sort((a, b) => (a.name < b.name ? 1 : -1));
  else groups.sort((a, b) => size(b.used) - size(a.used));
  const most = Math.max(...groups.map((one) => size(one.used)), 1e-12);
  return (
    <section>
      <h2>{title}</h2>
      <div class="scroll">
        <table class="rows costs">
          <thead>
            <tr>
              <th>{by === "day" ? "Day (UTC)" : by === "workflow" ? "Workflow" : "Model"}</th>
              <th class="share">
                <span class="hidden">Share</span>
              </th>
              <th class="end">Cost</th>
              <th class="end">Calls</th>
              <th class="end wide">Input tokens</th>
              <th class="end wide">Output tokens</th>
            </tr>
          </thead>
          <tbody>
            {groups.slice(0, 100).map(({ name, used }) => (
              <tr key={name}>
                <td>{label(by, name)}</td>
                <td class="share">
                  <meter min={0} max={1} value={size(used) / most} aria-label={`Share of ${plain(name)}`} />
                </td>
                <td class="end num">{money(used)}</td>
                <td class="end num">{used.calls.toLocaleString("en")}</td>
                <td class="end num wide">{used.inputTokens.toLocaleString("en")}</td>
                <td class="end num wide">{used.outputTokens.toLocaleString("en")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function label(by: string, name: string) {
  const to = by === "workflow" ? href(["runs"], { workflow: name }) : null;
  return to ? <a href={to}>{plain(name)}</a> : plain(name);
}

function dollars(used: Used): number {
  return Object.values(used.cost).reduce((sum, one) => sum + one, 0);
}

/** The cost in each currency; a dash where no price is known. */
function money(used: Used): string {
  const parts = Object.entries(used.cost).map(([currency, amount]) =>
    currency === "USD" ? `$${amount.toFixed(amount < 1 ? 4 : 2)}` : `${amount.toFixed(2)} ${currency}`,
  );
  return parts.join(", ") || "–";
}
