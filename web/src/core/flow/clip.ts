// What copying puts on the clipboard, and pasting takes from it: a part of a drawing as JSON.
import { freshId, unused } from "./graph";
import type { FlowEdge, FlowNode, Graph } from "./types";

export interface Clip {
  mind: "flow";
  nodes: FlowNode[];
  edges: FlowEdge[];
}

const most = 5000;

/** copy is the selected nodes and the edges between them. */
export function copy(g: Graph, selected: ReadonlySet<string>): string {
  const clip: Clip = {
    mind: "flow", nodes: g.nodes.filter((n) => selected.has(n.id)),
    edges: g.edges.filter((e) => selected.has(e.source.node) && selected.has(e.target.node)),
  };
  return JSON.stringify(clip, null, 1);
}

/** parse reads the clipboard; null: it has something else. */
export function parse(text: string): Clip | null {
  if (text.length > 1 << 20 || !text.trimStart().startsWith("{")) return null;
  try {
    const clip = JSON.parse(text) as Partial<Clip>;
    if (clip.mind !== "flow" || !Array.isArray(clip.nodes) || !Array.isArray(clip.edges) || clip.nodes.length > most) return null;
    const good = clip.nodes.every((n) => n && typeof n.id === "string" && typeof n.type === "string" && typeof n.label === "string" && Number.isFinite(n.position?.x) && Number.isFinite(n.position?.y));
    const joined = clip.edges.every((e) => e && typeof e.source?.node === "string" && typeof e.target?.node === "string");
    return good && joined && clip.nodes.length > 0 ? { mind: "flow", nodes: clip.nodes, edges: clip.edges } : null;
  } catch {
    return null;
  }
}

/** paste adds a clip with ids, labels and result names of its own, moved by so much. */
export function paste(g: Graph, clip: Clip, by: { x: number; y: number }, random?: () => number): { graph: Graph; ids: Set<string> } {
  const nodeIds = new Set(g.nodes.map((n) => n.id));
  const edgeIds = new Set(g.edges.map((e) => e.id));
  const labels = new Set(g.nodes.map((n) => n.label));
  const names = new Set(g.nodes.map((n) => n.config?.["result_binding"]));
  const became = new Map<string, string>();
  const nodes = clip.nodes.map((n): FlowNode => {
    const id = freshId("node", (x) => nodeIds.has(x), random);
    nodeIds.add(id);
    became.set(n.id, id);
    const label = unused(n.label, (l) => labels.has(l));
    labels.add(label);
    const name = n.config?.["result_binding"];
    let config = n.config;
    if (typeof name === "string" && name !== "" && names.has(name)) {
      const other = unused(name, (x) => names.has(x), "_");
      names.add(other);
      config = { ...config, result_binding: other };
    }
    return { ...n, id, label, ...(config ? { config } : {}), position: { x: n.position.x + by.x, y: n.position.y + by.y } };
  });
  const edges = clip.edges.filter((e) => became.has(e.source.node) && became.has(e.target.node)).map((e): FlowEdge => {
    const id = freshId("edge", (x) => edgeIds.has(x), random);
    edgeIds.add(id);
    return { ...e, id, source: { ...e.source, node: became.get(e.source.node)! }, target: { ...e.target, node: became.get(e.target.node)! } };
  });
  return { graph: { ...g, nodes: [...g.nodes, ...nodes], edges: [...g.edges, ...edges] }, ids: new Set(became.values()) };
}
