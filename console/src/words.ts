// The words by which one text differs from another.

export interface Part {
  text: string;
  changed: boolean;
}

/** Above this many words in each text, only the beginning and the end are compared. */
const MOST = 1500;

/** The parts of `to`: those that `from` does not have are changed. */
export function changes(from: string, to: string): Part[] {
  const [a, b] = [split(from), split(to)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  ) {
    end += 1;
  }
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const middle =
    left.length > MOST || right.length > MOST
      ? right.map(() => true)
      : isChanged(left, right);
  const parts: Part[] = [];
  const add = (text: string, changed: boolean) => {
    const last = parts.at(-1);
    if (last && last.changed === changed) last.text += text;
    else if (text) parts.push({ text, changed });
  };
  add(b.slice(0, start).join(""), false);
  right.forEach((word, at) => add(word, middle[at] ?? true));
  add(b.slice(b.length - end).join(""), false);
  return parts;
}

function split(text: string): string[] {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/** Which words of `b` are not in the longest common subsequence. */
function isChanged(a: string[], b: string[]): boolean[] {
  const [n, m] = [a.length, b.length];
  const width = m + 1;
  const lengths = new Uint16Array((n + 1) * width);
  const at = (i: number, j: number) => lengths[i * width + j] ?? 0;
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      lengths[i * width + j] =
        a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const changed = b.map(() => true);
  let [i, j] = [0, 0];
  while (i < n && j < m) {
    if (a[i] === b[j]) {
      changed[j] = false;
      i += 1;
      j += 1;
    } else if (at(i + 1, j) >= at(i, j + 1)) i += 1;
    else j += 1;
  }
  return changed;
}
