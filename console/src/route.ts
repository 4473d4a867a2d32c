// The address of the page: a path after the hash, and a query. It works without a server, too.
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

export const route = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return { parts, query: new URLSearchParams(query) };
});

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(parts: string[], query: Record<string, string | string[] | null> = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== "") found.append(name, one);
    }
  }
  const text = found.toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(to: string): void {
  location.hash = to.replace(/^#/, "");
}

/** Changes parts of the query; the back button skips it. */
export function requery(change: Record<string, string | string[] | null>): void {
  const { parts, query } = route.value;
  const next: Record<string, string | string[] | null> = {};
  for (const name of new Set(query.keys())) next[name] = query.getAll(name);
  const to = href(parts, { ...next, ...change });
  history.replaceState(null, "", to);
  hash.value = to;
}
