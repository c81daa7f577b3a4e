import type { Failover } from "./types";

/** Lane is a coordinator over time: when it led. */
export interface Lane {
  id: string;
  /** Parts of the whole time, 0 to 1. */
  led: { from: number; to: number; term: number }[];
}

export interface Gap {
  at: number;
  term: number;
  seconds: number;
}

export interface Lanes {
  from: number;
  to: number;
  lanes: Lane[];
  gaps: Gap[];
}

/**
 * lanesOf draws who led when. Failovers are not evenly spread: each term gets a width by the logarithm of its length, so
 * that a minute is seen beside a week.
 */
export function lanesOf(failovers: Failover[], coordinators: string[], leader: string, now: number): Lanes {
  const all = [...failovers].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const terms: { id: string; term: number; from: number; to: number }[] = [];
  const first = all[0];
  if (first?.previous_leader) terms.push({ id: first.previous_leader, term: 0, from: Date.parse(first.at) - 60_000, to: Date.parse(first.at) });
  all.forEach((f, i) => terms.push({ id: f.leader, term: f.term, from: Date.parse(f.at), to: i + 1 < all.length ? Date.parse(all[i + 1]!.at) : now }));
  if (terms.length === 0 && leader) terms.push({ id: leader, term: 0, from: now - 60_000, to: now });
  const weight = (t: { from: number; to: number }) => 1 + Math.log2(1 + Math.max(0, t.to - t.from) / 5000);
  const sum = terms.reduce((n, t) => n + weight(t), 0) || 1;
  const ids = [...new Set([...coordinators, ...terms.map((t) => t.id)])].filter(Boolean).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const lanes = ids.map((id): Lane => ({ id, led: [] }));
  const gaps: Gap[] = [];
  let at = 0;
  for (const t of terms) {
    const to = at + weight(t) / sum;
    lanes.find((l) => l.id === t.id)?.led.push({ from: at, to, term: t.term });
    const f = all.find((f) => f.term === t.term);
    if (f && t.term !== 0 && f.stood_still_seconds !== null) gaps.push({ at, term: f.term, seconds: f.stood_still_seconds });
    at = to;
  }
  return { from: terms[0]?.from ?? now, to: now, lanes, gaps };
}
