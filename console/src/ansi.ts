// Terminal output as spans with classes. Only colours and weights are understood; every other
// sequence is dropped, so output cannot move, hide or link anything.

export interface Span {
  text: string;
  style: string;
}

// CSI and OSC sequences, and single escapes.
const SEQUENCE =
  // eslint-disable-next-line no-control-regex
  /\u001b\[([0-9;:]*)([ -/]*[@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_]|\u001b/g;

export interface Pen {
  fg: number | null;
  bg: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

export function pen(): Pen {
  return { fg: null, bg: null, bold: false, dim: false, italic: false, underline: false };
}

/** The spans of a text; the pen carries over to the next one. */
export function spans(text: string, state: Pen): Span[] {
  const found: Span[] = [];
  let from = 0;
  const push = (to: number) => {
    if (to > from) found.push({ text: text.slice(from, to), style: classes(state) });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") paint(state, match[1] ?? "");
  }
  push(text.length);
  return found;
}

function paint(state: Pen, codes: string): void {
  const list = codes.split(/[;:]/).map((code) => Number(code || 0));
  for (let at = 0; at < list.length; at++) {
    const code = list[at] ?? 0;
    if (code === 0) Object.assign(state, pen());
    else if (code === 1) state.bold = true;
    else if (code === 2) state.dim = true;
    else if (code === 3) state.italic = true;
    else if (code === 4) state.underline = true;
    else if (code === 22) state.bold = state.dim = false;
    else if (code === 23) state.italic = false;
    else if (code === 24) state.underline = false;
    else if (code >= 30 && code <= 37) state.fg = code - 30;
    else if (code === 39) state.fg = null;
    else if (code >= 40 && code <= 47) state.bg = code - 40;
    else if (code === 49) state.bg = null;
    else if (code >= 90 && code <= 97) state.fg = code - 82;
    else if (code >= 100 && code <= 107) state.bg = code - 92;
    else if (code === 38 || code === 48) {
      const wide = list[at + 1] === 5;
      const value = wide ? (list[at + 2] ?? 0) : null;
      if (value !== null && value < 16) {
        if (code === 38) state.fg = value;
        else state.bg = value;
      }
      at += wide ? 2 : list[at + 1] === 2 ? 4 : 0;
    }
  }
}

function classes(state: Pen): string {
  const names: string[] = [];
  if (state.fg !== null) names.push(`f${state.fg}`);
  if (state.bg !== null) names.push(`b${state.bg}`);
  if (state.bold) names.push("bold");
  if (state.dim) names.push("dim");
  if (state.italic) names.push("ital");
  if (state.underline) names.push("under");
  return names.join(" ");
}
