import type { Series } from "./types";

/** Curve is one number of a job over steps or time, each attempt a line of its own, with the band between min and max. */
export interface Curve {
  name: string;
  unit: string;
  x: number[];
  lines: { attempt: number; last: (number | null)[]; min: (number | null)[]; max: (number | null)[] }[];
  /** The newest value. */
  newest: number | null;
  notFinite: number;
}

/** names lists the numbers of a job: those it reports first, loss before all, then what its GPUs were measured at. */
export function names(series: Series[]): { reported: string[]; measured: string[] } {
  const reported = new Set<string>();
  const measured = new Set<string>();
  for (const s of series) (s.unit ? measured : reported).add(s.name);
  const order = (a: string, b: string) => Number(b.includes("loss")) - Number(a.includes("loss")) || a.localeCompare(b);
  return { reported: [...reported].sort(order), measured: [...measured].sort(order) };
}

/** curve puts the series of one name on one axis. Of several ranks the lowest is shown. */
export function curve(series: Series[], name: string, by: "step" | "time"): Curve {
  const mine = series.filter((s) => s.name === name);
  const lowest = new Map<number, Series>();
  for (const s of mine) {
    const known = lowest.get(s.attempt);
    if (!known || s.rank < known.rank) lowest.set(s.attempt, s);
  }
  const chosen = [...lowest.values()].sort((a, b) => a.attempt - b.attempt);
  const steps = by === "step" && chosen.every((s) => s.points.every((p) => p.step !== null));
  const at = (p: Series["points"][number]) => (steps ? p.step! : Date.parse(p.time) / 1000);
  const x = [...new Set(chosen.flatMap((s) => s.points.map(at)))].sort((a, b) => a - b);
  const place = new Map(x.map((v, i) => [v, i]));
  const blank = () => Array<number | null>(x.length).fill(null);
  const lines = chosen.map((s) => {
    const l = { attempt: s.attempt, last: blank(), min: blank(), max: blank() };
    for (const p of s.points) {
      const i = place.get(at(p))!;
      l.last[i] = p.last;
      l.min[i] = p.min;
      l.max[i] = p.max;
    }
    return l;
  });
  const newest = chosen.at(-1)?.points.at(-1)?.last ?? null;
  return { name, unit: chosen[0]?.unit ?? "", x, lines, newest, notFinite: chosen.reduce((n, s) => n + s.not_finite, 0) };
}

/** value writes a number of a curve. */
export function value(n: number | null, unit: string): string {
  if (n === null) return "–";
  switch (unit) {
    case "ratio": return `${Math.round(n * 100)} %`;
    case "bytes": return `${(n / 2 ** 30).toFixed(1)} GiB`;
    case "watts": return `${Math.round(n)} W`;
    case "celsius": return `${Math.round(n)} °C`;
  }
  if (n === 0) return "0";
  const size = Math.abs(n);
  if (size >= 1e6 || size < 1e-3) return n.toExponential(2);
  return size >= 1000 ? String(Math.round(n)) : n.toPrecision(4).replace(/\.?0+$/, "");
}
