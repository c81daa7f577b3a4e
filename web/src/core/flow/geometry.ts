// Where things are on the canvas: boxes, ports, curves, and what is under a point.
import type { Kinds } from "./graph";
import type { End, FlowEdge, FlowNode, Graph } from "./types";

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

/** View is what of the drawing is seen: a point of it is at k times its place, moved by x and y. */
export interface View extends Point {
  k: number;
}

export const width = 208;
const head = 56;
const row = 22;
export const grid = 8;

/** heightOf is the height of a node: a row for each port beyond the first. */
export function heightOf(kinds: Kinds, n: FlowNode): number {
  return head + Math.max(0, Math.max(kinds.inputs(n).length, kinds.outputs(n).length) - 1) * row;
}

export const boxOf = (kinds: Kinds, n: FlowNode): Box => ({ ...n.position, width, height: heightOf(kinds, n) });

/** portAt is the place of a port within its node; null: the node has no such port. */
export function portAt(kinds: Kinds, n: FlowNode, side: "in" | "out", id: string): Point | null {
  const ports = side === "in" ? kinds.inputs(n) : kinds.outputs(n);
  const i = ports.findIndex((p) => p.id === id);
  if (i < 0) return null;
  return { x: side === "in" ? 0 : width, y: (ports.length === 1 ? heightOf(kinds, n) / 2 : 28 + i * row) };
}

/** around is the box around all nodes. */
export function around(kinds: Kinds, nodes: FlowNode[]): Box {
  if (nodes.length === 0) return { x: 0, y: 0, width: 0, height: 0 };
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const n of nodes) {
    left = Math.min(left, n.position.x);
    top = Math.min(top, n.position.y);
    right = Math.max(right, n.position.x + width);
    bottom = Math.max(bottom, n.position.y + heightOf(kinds, n));
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export const least = 0.05;
export const most = 2.5;

/** fit is the view that shows a box in a window of a size. */
export function fit(box: Box, size: { width: number; height: number }, margin = 36, largest = 1): View {
  if (box.width === 0 || size.width === 0) return { x: size.width / 2, y: size.height / 2, k: 1 };
  const k = Math.max(least, Math.min(largest, (size.width - 2 * margin) / box.width, (size.height - 2 * margin) / box.height));
  return { k, x: size.width / 2 - (box.x + box.width / 2) * k, y: size.height / 2 - (box.y + box.height / 2) * k };
}

/** zoomed is the view after zooming at a point of the window, which stays where it is. */
export function zoomed(v: View, by: number, at: Point): View {
  const k = Math.min(most, Math.max(least, v.k * by));
  return { k, x: at.x - ((at.x - v.x) / v.k) * k, y: at.y - ((at.y - v.y) / v.k) * k };
}

export const toDrawing = (v: View, p: Point): Point => ({ x: (p.x - v.x) / v.k, y: (p.y - v.y) / v.k });

/** seen is the part of the drawing in a window of a size. */
export function seen(v: View, size: { width: number; height: number }, margin = 0): Box {
  const a = toDrawing(v, { x: -margin, y: -margin });
  return { ...a, width: (size.width + 2 * margin) / v.k, height: (size.height + 2 * margin) / v.k };
}

export const overlaps = (a: Box, b: Box) => a.x <= b.x + b.width && b.x <= a.x + a.width && a.y <= b.y + b.height && b.y <= a.y + a.height;

/** between is the box that two corners span. */
export const between = (a: Point, b: Point): Box => ({ x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y) });

/** Curve is a cubic one. */
export type Curve = [Point, Point, Point, Point];

/** curve leads from an output to an input, on the sides where these are. */
export function curve(a: Point, b: Point): Curve {
  const far = b.x < a.x + 40 ? Math.max(90, Math.min(260, (a.x - b.x) / 2 + 60)) : Math.max(36, (b.x - a.x) / 2);
  return [a, { x: a.x + far, y: a.y }, { x: b.x - far, y: b.y }, b];
}

export const pathOf = ([a, c, d, b]: Curve) => `M${a.x} ${a.y}C${c.x} ${c.y} ${d.x} ${d.y} ${b.x} ${b.y}`;

/** along is the point of a curve at a part of its way. */
export function along([a, c, d, b]: Curve, t: number): Point {
  const u = 1 - t;
  const [p, q, r, s] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
  return { x: p * a.x + q * c.x + r * d.x + s * b.x, y: p * a.y + q * c.y + r * d.y + s * b.y };
}

/** endsOf are the places at which an edge begins and ends; null: one of its ports is not there. */
export function endsOf(kinds: Kinds, e: FlowEdge, source: FlowNode | undefined, target: FlowNode | undefined): [Point, Point] | null {
  if (!source || !target) return null;
  const a = portAt(kinds, source, "out", e.source.port);
  const b = portAt(kinds, target, "in", e.target.port);
  if (!a || !b) return null;
  return [{ x: source.position.x + a.x, y: source.position.y + a.y }, { x: target.position.x + b.x, y: target.position.y + b.y }];
}

export type Hit = { on: "port"; side: "in" | "out"; end: End } | { on: "node"; id: string } | { on: "edge"; id: string } | null;

/** under is what is at a point of the drawing; reach is how near to a port or an edge counts, in pixels of the drawing. */
export function under(g: Graph, kinds: Kinds, p: Point, reach = 9): Hit {
  for (let i = g.nodes.length - 1; i >= 0; i--) {
    const n = g.nodes[i]!;
    const b = boxOf(kinds, n);
    if (p.x < b.x - reach || p.x > b.x + b.width + reach || p.y < b.y - reach || p.y > b.y + b.height + reach) continue;
    for (const side of ["out", "in"] as const) {
      for (const port of side === "in" ? kinds.inputs(n) : kinds.outputs(n)) {
        const at = portAt(kinds, n, side, port.id)!;
        if (Math.hypot(b.x + at.x - p.x, b.y + at.y - p.y) <= reach) return { on: "port", side, end: { node: n.id, port: port.id } };
      }
    }
    if (p.x >= b.x && p.x <= b.x + b.width && p.y >= b.y && p.y <= b.y + b.height) return { on: "node", id: n.id };
  }
  const byId = new Map(g.nodes.map((n) => [n.id, n]));
  for (const e of g.edges) {
    const ends = endsOf(kinds, e, byId.get(e.source.node), byId.get(e.target.node));
    if (!ends) continue;
    const c = curve(...ends);
    const [left, right] = [Math.min(...c.map((q) => q.x)) - reach, Math.max(...c.map((q) => q.x)) + reach];
    const [top, bottom] = [Math.min(...c.map((q) => q.y)) - reach, Math.max(...c.map((q) => q.y)) + reach];
    if (p.x < left || p.x > right || p.y < top || p.y > bottom) continue;
    let before = c[0];
    for (let i = 1; i <= 24; i++) {
      const next = along(c, i / 24);
      if (away(p, before, next) <= reach) return { on: "edge", id: e.id };
      before = next;
    }
  }
  return null;
}

// away is how far a point is from a line.
function away(p: Point, a: Point, b: Point): number {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const long = dx * dx + dy * dy;
  const t = long === 0 ? 0 : Math.max(0, Math.min(1, ((p.x - a.x) * dx + (p.y - a.y) * dy) / long));
  return Math.hypot(a.x + t * dx - p.x, a.y + t * dy - p.y);
}

/** nearest is the next node in a direction, for keys; null: there is none. */
export function nearest(g: Graph, from: string, direction: "left" | "right" | "up" | "down"): string | null {
  const start = g.nodes.find((n) => n.id === from)?.position;
  if (!start) return null;
  let best: string | null = null;
  let least = Infinity;
  for (const n of g.nodes) {
    if (n.id === from) continue;
    const [dx, dy] = [n.position.x - start.x, n.position.y - start.y];
    const [along, across] = direction === "left" ? [-dx, dy] : direction === "right" ? [dx, dy] : direction === "up" ? [-dy, dx] : [dy, dx];
    if (along <= 0) continue;
    const cost = along + 2 * Math.abs(across);
    if (cost < least) [least, best] = [cost, n.id];
  }
  return best;
}

