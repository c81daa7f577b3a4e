// Which edges may be drawn. The gateway checks drawings again; these rules speak while an edge is being drawn.
import { freshId, type Kinds } from "./graph";
import type { EdgeType, End, FlowEdge, FlowNode, Graph } from "./types";

export const bodyPort = "out_body";
export const otherwise = "else";

export type Allowed = { ok: true; type: EdgeType; condition?: string } | { ok: false; why: string };

const no = (why: string): Allowed => ({ ok: false, why });

/** named names a node for people. */
export const named = (n: FlowNode) => n.label || n.id;

/** allowed says whether an edge may lead from an output to an input, and which type it has then. */
export function allowed(g: Graph, kinds: Kinds, from: End, to: End): Allowed {
  const source = g.nodes.find((n) => n.id === from.node);
  const target = g.nodes.find((n) => n.id === to.node);
  if (!source || !target) return no("There is no such node.");
  if (kinds.entry(target)) return no(`${named(target)} starts the flow: nothing leads to it.`);
  const out = kinds.outputs(source).find((p) => p.id === from.port);
  const into = kinds.inputs(target).find((p) => p.id === to.port);
  if (!out) return no(`${named(source)} has no output ${from.port}.`);
  if (!into) return no(`${named(target)} has no input ${to.port}.`);
  if (!fits(out.type, into.type)) return no(`The output is ${out.type}, and the input takes ${into.type}.`);
  const same = g.edges.find((e) => e.source.node === from.node && e.source.port === from.port && e.target.node === to.node && e.target.port === to.port);
  if (same) return no("There is an edge between these already.");
  if (source.id === target.id || leads(g, target.id, source.id)) {
    if (target.type !== "logic_loop") return no(`${named(target)} would lead back to itself: only the body of a loop leads back, to its loop.`);
    if (!body(g, target.id).has(source.id)) return no(`Only the body of ${named(target)} leads back to it: begin at its output “body”.`);
  }
  const others = g.edges.filter((e) => e.source.node === from.node && e.source.port === from.port && e.type !== "data");
  if (source.type === "logic_decision") return { ok: true, type: "conditional", ...(others.some((e) => e.condition === otherwise) || others.length === 0 ? {} : { condition: otherwise }) };
  if (others.length === 0) return { ok: true, type: "sequential" };
  const first = g.nodes.find((n) => n.id === others[0]?.target.node);
  if (others.every((e) => e.type === "conditional")) return { ok: true, type: "conditional", ...(others.some((e) => e.condition === otherwise) ? {} : { condition: otherwise }) };
  return no(`${named(source)} leads to ${first ? named(first) : "another node"} already. Put a decision or a parallel behind it.`);
}

const free = new Set(["", "any", "object"]);

/** fits says whether a value of one type goes where another is taken. */
export function fits(out: string | undefined, into: string | undefined): boolean {
  const [a, b] = [(out ?? "").trim(), (into ?? "").trim()];
  return free.has(a) || free.has(b) || a === b || (a === "int" && b === "float");
}

function after(g: Graph): Map<string, string[]> {
  const next = new Map<string, string[]>();
  for (const e of g.edges) {
    if (e.type === "data") continue;
    const list = next.get(e.source.node);
    if (list) list.push(e.target.node);
    else next.set(e.source.node, [e.target.node]);
  }
  return next;
}

function walk(next: Map<string, string[]>, begin: string[], stop: string): Set<string> {
  const seen = new Set<string>();
  const queue = [...begin];
  for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
    if (id === stop || seen.has(id)) continue;
    seen.add(id);
    queue.push(...(next.get(id) ?? []));
  }
  return seen;
}

// leads says whether edges lead from one node to another. Ways back into a loop from its body do not count.
function leads(g: Graph, from: string, to: string): boolean {
  return walk(forward(g), [from], "").has(to);
}

function forward(g: Graph): Map<string, string[]> {
  const bodies = new Map(g.nodes.filter((n) => n.type === "logic_loop").map((n) => [n.id, body(g, n.id)]));
  return after({ ...g, edges: g.edges.filter((e) => !bodies.get(e.target.node)?.has(e.source.node)) });
}

/** body has the nodes that are reached from the output “body” of a loop without passing the loop itself. */
export function body(g: Graph, loop: string): Set<string> {
  const begin = g.edges.filter((e) => e.type !== "data" && e.source.node === loop && e.source.port === bodyPort).map((e) => e.target.node);
  return walk(after(g), begin, loop);
}

/** returns has the edges that lead from the body of a loop back to it. */
export function returns(g: Graph): Set<string> {
  const loops = g.nodes.filter((n) => n.type === "logic_loop");
  const bodies = new Map(loops.map((n) => [n.id, body(g, n.id)]));
  return new Set(g.edges.filter((e) => bodies.get(e.target.node)?.has(e.source.node)).map((e) => e.id));
}

/** connect draws an edge if it is allowed. */
export function connect(g: Graph, kinds: Kinds, from: End, to: End, random?: () => number): { graph: Graph; id: string } | { why: string } {
  const may = allowed(g, kinds, from, to);
  if (!may.ok) return { why: may.why };
  const have = new Set(g.edges.map((e) => e.id));
  const edge: FlowEdge = { id: freshId("edge", (x) => have.has(x), random), type: may.type, source: from, target: to };
  if (may.type === "conditional") edge.condition = may.condition ?? "";
  return { graph: { ...g, edges: [...g.edges, edge] }, id: edge.id };
}

/** targets are the inputs to which an edge from an output may lead, for a list to choose from. */
export function targets(g: Graph, kinds: Kinds, from: End): { node: FlowNode; port: string }[] {
  return g.nodes.flatMap((n) => kinds.inputs(n).filter((p) => allowed(g, kinds, from, { node: n.id, port: p.id }).ok).map((p) => ({ node: n, port: p.id })));
}
