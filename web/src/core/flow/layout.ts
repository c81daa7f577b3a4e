// Puts the nodes of a drawing into layers from left to right, so that few edges cross.
import { heightOf, width } from "./geometry";
import type { Kinds } from "./graph";
import { returns } from "./rules";
import type { Graph } from "./types";

const gap = { x: 88, y: 40 };
const sweeps = 6;

/** layout returns the place of each node. The same drawing always gives the same places. */
export function layout(g: Graph, kinds: Kinds): Map<string, { x: number; y: number }> {
  const back = returns(g);
  const known = new Set(g.nodes.map((n) => n.id));
  const edges = g.edges.filter((e) => !back.has(e.id) && e.source.node !== e.target.node && known.has(e.source.node) && known.has(e.target.node));
  const rank = ranks(g.nodes.map((n) => n.id), edges.map((e) => [e.source.node, e.target.node]));
  const layers: string[][] = [];
  for (const n of g.nodes) (layers[rank.get(n.id)!] ??= []).push(n.id);
  const port = new Map(g.nodes.map((n) => [n.id, new Map(kinds.outputs(n).map((p, i) => [p.id, i]))]));
  const [into, out] = [new Map<string, [string, number][]>(), new Map<string, [string, number][]>()];
  for (const e of edges) {
    const along = (port.get(e.source.node)?.get(e.source.port) ?? 0) / 16;
    (into.get(e.target.node) ?? put(into, e.target.node)).push([e.source.node, along]);
    (out.get(e.source.node) ?? put(out, e.source.node)).push([e.target.node, along]);
  }
  for (let i = 0; i < sweeps; i++) {
    const down = i % 2 === 0;
    for (let l = down ? 1 : layers.length - 2; down ? l < layers.length : l >= 0; l += down ? 1 : -1) sort(layers, l, down ? into : out);
  }
  const byId = new Map(g.nodes.map((n) => [n.id, n]));
  const at = new Map<string, { x: number; y: number }>();
  layers.forEach((layer, l) => {
    const heights = (layer ?? []).map((id) => heightOf(kinds, byId.get(id)!));
    let y = -(heights.reduce((a, b) => a + b + gap.y, 0) - gap.y) / 2;
    layer?.forEach((id, i) => {
      at.set(id, { x: l * (width + gap.x), y: Math.round(y) });
      y += heights[i]! + gap.y;
    });
  });
  return at;
}

function put(map: Map<string, [string, number][]>, key: string): [string, number][] {
  const list: [string, number][] = [];
  map.set(key, list);
  return list;
}

// ranks gives each node the length of the longest way to it. Nodes in a circle get one too.
function ranks(nodes: string[], edges: [string, string][]): Map<string, number> {
  const open = new Map(nodes.map((id) => [id, 0]));
  const next = new Map<string, string[]>();
  for (const [a, b] of edges) {
    open.set(b, open.get(b)! + 1);
    next.set(a, [...(next.get(a) ?? []), b]);
  }
  const rank = new Map(nodes.map((id) => [id, 0]));
  const queue = nodes.filter((id) => open.get(id) === 0);
  const done = new Set<string>();
  for (;;) {
    const id = queue.shift() ?? nodes.find((n) => !done.has(n));
    if (id === undefined) return rank;
    if (done.has(id)) continue;
    done.add(id);
    for (const to of next.get(id) ?? []) {
      if (done.has(to)) continue;
      rank.set(to, Math.max(rank.get(to)!, rank.get(id)! + 1));
      const left = open.get(to)! - 1;
      open.set(to, left);
      if (left === 0) queue.push(to);
    }
  }
}

// sort orders a layer by the middle of the neighbours on one side.
function sort(layers: string[][], l: number, neighbours: Map<string, [string, number][]>): void {
  const place = new Map<string, number>();
  for (const layer of layers) layer?.forEach((id, i) => place.set(id, i));
  const layer = layers[l];
  if (!layer) return;
  const weight = new Map(layer.map((id, i) => {
    const near = neighbours.get(id) ?? [];
    return [id, near.length === 0 ? i : near.reduce((sum, [n, along]) => sum + place.get(n)! + along, 0) / near.length];
  }));
  layers[l] = layer.map((id, i) => [id, i] as const).sort((a, b) => weight.get(a[0])! - weight.get(b[0])! || a[1] - b[1]).map(([id]) => id);
}
