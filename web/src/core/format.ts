// Numbers, times and sizes as people read them. Everything here is pure: the present time is an argument.

const thin = "\u202f";

/** count groups digits by thousands. */
export function count(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return "–";
  const [whole = "", part] = (Number.isInteger(n) ? String(n) : n.toFixed(1)).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, thin);
  return part && part !== "0" ? `${grouped}.${part}` : grouped;
}

/** plural writes a number with its noun. */
export function plural(n: number, one: string, many = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** duration writes seconds in at most two units. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 1) return s === 0 ? "0 s" : `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return two(s, 60, "min", 1, "s");
  if (s < 86400) return two(s, 3600, "h", 60, "min");
  return two(s, 86400, "d", 3600, "h");
}

/** precise writes seconds of which parts matter. */
export function precise(seconds: number | null): string {
  return seconds === null ? "–" : seconds < 60 ? `${seconds.toFixed(2)} s` : duration(seconds);
}

function two(s: number, big: number, bigUnit: string, small: number, smallUnit: string): string {
  const whole = Math.floor(s / big);
  const rest = Math.floor((s - whole * big) / small);
  return rest === 0 ? `${whole} ${bigUnit}` : `${whole} ${bigUnit} ${rest} ${smallUnit}`;
}

/** since is the time from a moment until now, in seconds; null: the moment is not known. */
export function since(at: string | null | undefined, now: number): number | null {
  if (!at) return null;
  const t = Date.parse(at);
  return Number.isNaN(t) ? null : (now - t) / 1000;
}

/** ago says how long ago a moment was. */
export function ago(at: string | null | undefined, now: number): string {
  const s = since(at, now);
  if (s === null) return "–";
  return s < 1 ? "now" : `${coarse(s)} ago`;
}

/** ahead says how far ahead a moment is. */
export function ahead(at: string | null | undefined, now: number): string {
  const s = since(at, now);
  if (s === null) return "–";
  return s >= 0 ? "now" : `in ${coarse(-s)}`;
}

// One unit is enough to know how old something is.
function coarse(s: number): string {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** clock is a time of day; with the date when that is another day. */
export function clock(at: string | null | undefined, now: number): string {
  if (!at) return "–";
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return "–";
  const pad = (n: number) => String(n).padStart(2, "0");
  const time = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  const today = new Date(now);
  if (d.toDateString() === today.toDateString()) return time;
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${time}`;
}

/** bytes writes a size in binary units. */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = n;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** percent writes a share of one. */
export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`;
}

/** joined lists words in a sentence. */
export function joined(words: string[], last = "and"): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${last} ${words[words.length - 1]}`;
}

/** gpus says what a job asks for. */
export function gpus(r: { gpu_count?: number; gpu_type?: string; gpu_fraction?: number; node_count?: number } | null): string {
  if (!r) return "no GPU";
  const type = r.gpu_type ? ` ${r.gpu_type.replaceAll("|", " or ")}` : "";
  if (r.gpu_fraction) return `${r.gpu_fraction}${type || " GPU"}`;
  if (!r.gpu_count) return "no GPU";
  const nodes = (r.node_count ?? 1) > 1 ? ` on ${r.node_count} nodes` : "";
  return type ? `${r.gpu_count} ×${type}${nodes}` : `${plural(r.gpu_count, "GPU")}${nodes}`;
}
