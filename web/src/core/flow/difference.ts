import type { Graph } from "./types";

export interface Difference {
  added: string[];
  removed: string[];
  changed: string[];
  /** Edges that only one of them has, or that differ. */
  edges: string[];
  /** Whether anything else differs: the name, the variables, the config. */
  rest: boolean;
}

/** difference says what a drawing has other than another one, by the ids of nodes and edges. Places count as well. */
export function difference(theirs: Graph, mine: Graph): Difference {
  const d: Difference = { added: [], removed: [], changed: [], edges: [], rest: false };
  const [a, b] = [byId(theirs.nodes), byId(mine.nodes)];
  for (const [id, text] of b) if (!a.has(id)) d.added.push(id);
    else if (a.get(id) !== text) d.changed.push(id);
  for (const id of a.keys()) if (!b.has(id)) d.removed.push(id);
  const [e, f] = [byId(theirs.edges), byId(mine.edges)];
  for (const id of new Set([...e.keys(), ...f.keys()])) if (e.get(id) !== f.get(id)) d.edges.push(id);
  const rest = ({ id: _i, version: _v, nodes: _n, edges: _e, ...more }: Graph) => canonical(more);
  d.rest = rest(theirs) !== rest(mine);
  return d;
}

/** same says whether two drawings mean and show the same. Their ids and versions are the server's. */
export function same(a: Graph, b: Graph): boolean {
  const d = difference(a, b);
  return !d.rest && d.added.length + d.removed.length + d.changed.length + d.edges.length === 0;
}

const byId = (all: { id: string }[]) => new Map(all.map((x) => [x.id, canonical(x)]));

// canonical writes JSON with its keys in order, without empty parts: what is left out and what is empty are the same.
function canonical(v: unknown): string {
  if (Array.isArray(v)) return `[${v.map(canonical).join(",")}]`;
  if (v && typeof v === "object") {
    const all = Object.entries(v).filter(([, x]) => x !== undefined && x !== "" && x !== null && x !== false && !(typeof x === "object" && Object.keys(x as object).length === 0));
    return `{${all.sort(([x], [y]) => (x < y ? -1 : 1)).map(([k, x]) => JSON.stringify(k) + ":" + canonical(x)).join(",")}}`;
  }
  return JSON.stringify(v);
}
