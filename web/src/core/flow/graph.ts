// Operations on drawings. Each returns another drawing that shares what it does not change, so undoing is keeping the old one.
import type { FlowEdge, FlowNode, Graph, KindTable, Port, Spec } from "./types";

/** Kinds is the table of the kinds by name. */
export class Kinds {
  private readonly byName: Map<string, Spec>;
  constructor(readonly table: KindTable) {
    this.byName = new Map(table.kinds.map((k) => [k.kind, k]));
  }
  of(kind: string): Spec | undefined {
    return this.byName.get(kind);
  }
  /** The ports at which edges end: those that are drawn, or those of the kind. */
  inputs(n: FlowNode): Port[] {
    return n.inputs ?? this.of(n.type)?.inputs ?? [];
  }
  outputs(n: FlowNode): Port[] {
    return n.outputs ?? this.of(n.type)?.outputs ?? [];
  }
  entry(n: FlowNode): boolean {
    return this.of(n.type)?.category === "entry";
  }
  runs(n: FlowNode): boolean {
    return this.of(n.type)?.runs ?? false;
  }
}

/** blank is a new flow. */
export function blank(name: string): Graph {
  return { id: "", name, version: "0.1.0", scaicore_target: "0.2", nodes: [], edges: [], config: {} };
}

/** whole gives a stored drawing the parts that a canvas needs, whatever was left out of it. */
export function whole(g: Partial<Graph>): Graph {
  return {
    ...g, id: g.id ?? "", name: g.name ?? "", version: g.version ?? "", nodes: (g.nodes ?? []).map(placed), edges: g.edges ?? [], config: g.config ?? {},
  };
}

function placed(n: FlowNode): FlowNode {
  const at = (v: unknown) => (Number.isFinite(Number(v)) ? Number(v) : 0);
  return { ...n, label: n.label ?? "", position: { x: at(n.position?.x), y: at(n.position?.y) } };
}

const letters = "abcdefghijkmnpqrstuvwxyz23456789";

/** freshId makes an id that the drawing does not have. */
export function freshId(prefix: "node" | "edge", taken: (id: string) => boolean, random: () => number = Math.random): string {
  for (;;) {
    let id = prefix + "_";
    for (let i = 0; i < 6; i++) id += letters[Math.floor(random() * letters.length)];
    if (!taken(id)) return id;
  }
}

const ids = (all: { id: string }[]) => new Set(all.map((x) => x.id));

/** unused is a name, or the name with a number, that is not taken. */
export function unused(name: string, taken: (name: string) => boolean, gap = " "): string {
  if (!taken(name)) return name;
  const base = name.replace(new RegExp(`${gap}\\d+$`), "");
  for (let i = 2; ; i++) if (!taken(`${base}${gap}${i}`)) return `${base}${gap}${i}`;
}

/** add puts a node of a kind into the drawing, with its ports and the defaults that a field must have. */
export function add(g: Graph, spec: Spec, at: { x: number; y: number }, random?: () => number): { graph: Graph; id: string } {
  const have = ids(g.nodes);
  const labels = new Set(g.nodes.map((n) => n.label));
  const id = freshId("node", (x) => have.has(x), random);
  const config: Record<string, unknown> = {};
  for (const f of spec.fields) if (f.required && f.default !== undefined) config[f.name] = f.default;
  const node: FlowNode = {
    id, type: spec.kind, label: unused(spec.label, (l) => labels.has(l)), position: { x: Math.round(at.x), y: Math.round(at.y) },
    config, inputs: spec.inputs, outputs: spec.outputs,
  };
  return { graph: { ...g, nodes: [...g.nodes, node] }, id };
}

/** place puts nodes where the map says. */
export function place(g: Graph, to: ReadonlyMap<string, { x: number; y: number }>): Graph {
  let changed = false;
  const nodes = g.nodes.map((n) => {
    const p = to.get(n.id);
    if (!p || (p.x === n.position.x && p.y === n.position.y)) return n;
    changed = true;
    return { ...n, position: { x: Math.round(p.x), y: Math.round(p.y) } };
  });
  return changed ? { ...g, nodes } : g;
}

/** move shifts nodes. */
export function move(g: Graph, nodes: ReadonlySet<string>, dx: number, dy: number): Graph {
  return place(g, new Map(g.nodes.filter((n) => nodes.has(n.id)).map((n) => [n.id, { x: n.position.x + dx, y: n.position.y + dy }])));
}

/** remove takes nodes with their edges, and edges, out of the drawing. */
export function remove(g: Graph, nodes: ReadonlySet<string>, edges: ReadonlySet<string> = new Set()): Graph {
  const left = g.nodes.filter((n) => !nodes.has(n.id));
  const kept = g.edges.filter((e) => !edges.has(e.id) && !nodes.has(e.source.node) && !nodes.has(e.target.node));
  return left.length === g.nodes.length && kept.length === g.edges.length ? g : { ...g, nodes: left, edges: kept };
}

/** setNode changes fields of a node; undefined takes a field away. */
export function setNode(g: Graph, id: string, change: Partial<{ [K in keyof FlowNode]: FlowNode[K] | undefined }>): Graph {
  return { ...g, nodes: g.nodes.map((n) => (n.id === id ? (without({ ...n, ...change }) as unknown as FlowNode) : n)) };
}

/** setEdge changes fields of an edge; undefined takes a field away. */
export function setEdge(g: Graph, id: string, change: Partial<{ [K in keyof FlowEdge]: FlowEdge[K] | undefined }>): Graph {
  return { ...g, edges: g.edges.map((e) => (e.id === id ? (without({ ...e, ...change }) as unknown as FlowEdge) : e)) };
}

function without(o: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined));
}

/** configure sets a field of the config of a node; undefined takes it away. */
export function configure(g: Graph, id: string, name: string, value: unknown): Graph {
  const n = g.nodes.find((x) => x.id === id);
  return n ? setNode(g, id, { config: without({ ...n.config, [name]: value }) }) : g;
}

/** setOutputs gives a node other outputs. Edges that began at one that is gone go with it. */
export function setOutputs(g: Graph, id: string, outputs: Port[]): Graph {
  const have = ids(outputs);
  return { ...setNode(g, id, { outputs }), edges: g.edges.filter((e) => e.source.node !== id || have.has(e.source.port)) };
}

/** middle is the middle of nodes; null: there are none. */
export function middle(g: Graph, nodes?: ReadonlySet<string>): { x: number; y: number } | null {
  const some = nodes ? g.nodes.filter((n) => nodes.has(n.id)) : g.nodes;
  if (some.length === 0) return null;
  const sum = some.reduce((a, n) => ({ x: a.x + n.position.x, y: a.y + n.position.y }), { x: 0, y: 0 });
  return { x: sum.x / some.length, y: sum.y / some.length };
}
