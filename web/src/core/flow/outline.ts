// A drawing read from its start to its end: for the outline, for screen readers, and for search.
import type { Kinds } from "./graph";
import { otherwise, returns } from "./rules";
import type { FlowEdge, FlowNode, Graph } from "./types";

export interface Line {
  node: FlowNode;
  /** How many branches it is in. */
  depth: number;
  /** How the flow comes here: the condition or the output that leads to it; empty: just the one before. */
  by: string;
  /** Nodes that nothing leads to from an entry never run. */
  reached: boolean;
}

/** outline lists the nodes in the order in which the flow comes to them; what nothing leads to comes last. */
export function outline(g: Graph, kinds: Kinds): Line[] {
  const byId = new Map(g.nodes.map((n) => [n.id, n]));
  const back = returns(g);
  const after = new Map<string, FlowEdge[]>();
  for (const e of g.edges) {
    if (e.type === "data" || back.has(e.id) || !byId.has(e.target.node)) continue;
    const list = after.get(e.source.node);
    if (list) list.push(e);
    else after.set(e.source.node, [e]);
  }
  const reached = new Set<string>();
  const queue = g.nodes.filter((n) => kinds.entry(n)).map((n) => n.id);
  for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
    if (reached.has(id)) continue;
    reached.add(id);
    for (const e of after.get(id) ?? []) queue.push(e.target.node);
  }
  // A node where branches meet is come to when all of them were.
  const comes = new Map<string, { left: number; all: number; depth: number }>();
  for (const [from, edges] of after) {
    if (!reached.has(from)) continue;
    for (const e of edges) {
      const c = comes.get(e.target.node) ?? { left: 0, all: 0, depth: Infinity };
      comes.set(e.target.node, { ...c, left: c.left + 1, all: c.all + 1 });
    }
  }
  const lines: Line[] = [];
  const seen = new Set<string>();
  const visit = (start: FlowNode) => {
    const stack: Line[] = [{ node: start, depth: 0, by: "", reached: reached.has(start.id) }];
    for (let line = stack.pop(); line; line = stack.pop()) {
      const n = line.node;
      if (seen.has(n.id)) continue;
      seen.add(n.id);
      lines.push(line);
      const ports = kinds.outputs(n);
      const order = (e: FlowEdge) => ports.findIndex((p) => p.id === e.source.port) * 2 + (e.condition === otherwise ? 1 : 0);
      // The last one first: the stack turns them around.
      const edges = [...(after.get(n.id) ?? [])].sort((a, b) => order(a) - order(b)).reverse();
      const branches = edges.length > 1 || ports.length > 1;
      for (const e of edges) {
        const to = byId.get(e.target.node)!;
        const c = comes.get(to.id) ?? { left: 1, all: 1, depth: Infinity };
        c.left--;
        c.depth = Math.min(c.depth, line.depth + (branches && e.source.port !== "out_done" ? 1 : 0));
        if (c.left > 0) continue;
        const label = ports.length > 1 ? (ports.find((p) => p.id === e.source.port)?.label ?? e.source.port) : "";
        stack.push({ node: to, depth: Math.max(0, c.depth - (c.all > 1 ? 1 : 0)), by: c.all > 1 ? "" : e.condition || label, reached: line.reached });
      }
    }
  };
  for (const n of g.nodes) if (kinds.entry(n)) visit(n);
  const targets = new Set([...after.values()].flat().map((e) => e.target.node));
  for (const n of g.nodes) if (!seen.has(n.id) && !targets.has(n.id)) visit(n);
  for (const n of g.nodes) if (!seen.has(n.id)) visit(n);
  return lines;
}

/** search finds nodes by their label, kind, id, or a text in their config. */
export function search(g: Graph, kinds: Kinds, text: string): FlowNode[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return g.nodes.filter((n) => {
    const all = `${n.label} ${n.type} ${kinds.of(n.type)?.label ?? ""} ${n.id} ${JSON.stringify(n.config ?? {})}`.toLowerCase();
    return words.every((w) => all.includes(w));
  });
}
