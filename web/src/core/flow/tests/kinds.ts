import { add, blank, Kinds } from "../graph";
import { connect } from "../rules";
import type { Graph, KindTable } from "../types";
import table from "./kinds.json";

export const kinds = new Kinds(table as KindTable);

/** seeded is a source of numbers that is the same at each run. */
export function seeded(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** drawn makes a drawing of nodes, each "label: kind", and edges, each "label.port > label". */
export function drawn(nodes: string[], edges: string[] = []): { g: Graph; id: (label: string) => string } {
  let g = blank("a flow");
  const random = seeded(7);
  const ids = new Map<string, string>();
  nodes.forEach((n, i) => {
    const [label, kind] = n.split(": ") as [string, string];
    const made = add(g, kinds.of(kind)!, { x: i * 300, y: 0 }, random);
    g = { ...made.graph, nodes: made.graph.nodes.map((x) => (x.id === made.id ? { ...x, label } : x)) };
    ids.set(label, made.id);
  });
  const id = (label: string) => ids.get(label)!;
  for (const e of edges) {
    const [from, to] = e.split(" > ") as [string, string];
    const [label, port] = from.split(".") as [string, string?];
    const source = g.nodes.find((n) => n.id === id(label))!;
    const made = connect(g, kinds, { node: source.id, port: port ?? kinds.outputs(source)[0]!.id }, { node: id(to), port: "in" }, random);
    if ("why" in made) throw new Error(`${e}: ${made.why}`);
    g = made.graph;
  }
  return { g, id };
}
