// What programs print for terminals, as pieces of text with a look. Nothing here makes markup.

export interface Piece {
  text: string;
  /** Names of classes: bold, dim, italic, under, inverse, and f0 to f15 for the colours of terminals. */
  look: string;
  /** A colour beyond those sixteen; empty: none. */
  colour: string;
  /** Where it links to, http or https only; empty: nowhere. */
  href: string;
}

interface Look {
  bold: boolean;
  dim: boolean;
  italic: boolean;
  under: boolean;
  inverse: boolean;
  colour: string;
}

const plain: Look = { bold: false, dim: false, italic: false, under: false, inverse: false, colour: "" };

// Control sequences (CSI), operating system commands (OSC, which can hold links and titles), strings of terminals, and
// two-character escapes. Only colours and weights (CSI ... m) have a meaning here; all others are left out.
const escape = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?/g;

/** parse reads one line. Of a line that overwrites itself the last state counts, as a terminal shows it. */
export function parse(line: string): Piece[] {
  const shown = line.slice(line.replace(/\r+$/, "").lastIndexOf("\r") + 1);
  const pieces: Piece[] = [];
  let look = plain;
  let from = 0;
  for (const m of shown.matchAll(escape)) {
    add(pieces, shown.slice(from, m.index), look);
    from = m.index + m[0].length;
    if (m[2] === "m") look = changed(look, m[1] ?? "");
  }
  add(pieces, shown.slice(from), look);
  return pieces;
}

/** strip leaves the text alone. */
export function strip(line: string): string {
  if (!/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(line)) return line;
  return parse(line).map((p) => p.text).join("");
}

const link = /https?:\/\/[^\s<>"'`\\^{|}\x00-\x1f]+/g;

function add(pieces: Piece[], raw: string, look: Look): void {
  const text = raw.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "");
  if (text === "") return;
  const style = { look: classes(look), colour: /^#/.test(look.colour) ? look.colour : "" };
  let from = 0;
  for (const m of text.matchAll(link)) {
    const url = m[0].replace(/[.,;:!?)\]]+$/, "");
    if (!safe(url)) continue;
    if (m.index > from) pieces.push({ text: text.slice(from, m.index), href: "", ...style });
    pieces.push({ text: url, href: url, ...style });
    from = m.index + url.length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), href: "", ...style });
}

/** safe says whether a text of a user may be a link. */
export function safe(url: string): boolean {
  try {
    const u = new URL(url);
    return (u.protocol === "http:" || u.protocol === "https:") && u.username === "" && u.password === "";
  } catch {
    return false;
  }
}

function classes(l: Look): string {
  const names = (["bold", "dim", "italic", "under", "inverse"] as const).filter((n) => l[n]) as string[];
  if (/^f\d+$/.test(l.colour)) names.push(l.colour);
  return names.join(" ");
}

function changed(before: Look, codes: string): Look {
  let look = before;
  const all = codes.split(/[;:]/).map((c) => (c === "" ? 0 : Number(c)));
  for (let i = 0; i < all.length; i++) {
    const c = all[i] ?? 0;
    if (c === 0) look = plain;
    else if (c === 1) look = { ...look, bold: true };
    else if (c === 2) look = { ...look, dim: true };
    else if (c === 3) look = { ...look, italic: true };
    else if (c === 4) look = { ...look, under: true };
    else if (c === 7) look = { ...look, inverse: true };
    else if (c === 22) look = { ...look, bold: false, dim: false };
    else if (c === 23) look = { ...look, italic: false };
    else if (c === 24) look = { ...look, under: false };
    else if (c === 27) look = { ...look, inverse: false };
    else if (c >= 30 && c <= 37) look = { ...look, colour: `f${c - 30}` };
    else if (c >= 90 && c <= 97) look = { ...look, colour: `f${c - 82}` };
    else if (c === 39) look = { ...look, colour: "" };
    else if (c === 38 || c === 48) {
      const wide = all[i + 1] === 2;
      if (c === 38) look = { ...look, colour: wide ? rgb(all[i + 2], all[i + 3], all[i + 4]) : indexed(all[i + 2]) };
      i += wide ? 4 : 2;
    }
  }
  return look;
}

function rgb(...parts: (number | undefined)[]): string {
  return "#" + parts.map((p) => Math.min(255, Math.max(0, p || 0)).toString(16).padStart(2, "0")).join("");
}

// The 256 colours: sixteen named ones, a cube of six to the third, and grey.
function indexed(n: number | undefined): string {
  if (n === undefined || !(n >= 0 && n <= 255)) return "";
  if (n < 16) return `f${n}`;
  if (n >= 232) return rgb(8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10);
  const level = (x: number) => (x === 0 ? 0 : 55 + x * 40);
  const c = n - 16;
  return rgb(level(Math.floor(c / 36)), level(Math.floor(c / 6) % 6), level(c % 6));
}
