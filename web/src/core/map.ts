// The map of GPUs: what each is doing, for the picture and for the table that says the same.

export type Cell = "free" | "mine" | "others" | "broken";

export interface MapNode {
  id: string;
  state: string;
  type: string;
  domain: string;
  cells: Cell[];
  /** Tenths of the time in which each GPU works; -1: not known. */
  busy: number[];
}

/** MapAnswer has one element for each node in each list. */
export interface MapAnswer {
  node_ids: string[];
  states: string[];
  gpu_types: string[];
  domains: string[];
  gpus: string[];
  utilization: string[];
}

const cellOf: Record<string, Cell> = { ".": "free", m: "mine", o: "others", x: "broken" };

/** nodesOf reads the answer of /cluster/map. */
export function nodesOf(answer: MapAnswer): MapNode[] {
  return answer.node_ids.map((id, i) => ({
    id,
    state: answer.states[i] ?? "",
    type: (answer.gpu_types[i] ?? "").replaceAll("|", " or "),
    domain: answer.domains[i] ?? "",
    cells: [...(answer.gpus[i] ?? "")].map((c) => cellOf[c] ?? "broken"),
    busy: [...(answer.utilization[i] ?? "")].map((c) => (c >= "0" && c <= "9" ? Number(c) : -1)),
  }));
}

export interface Totals {
  free: number;
  mine: number;
  others: number;
  broken: number;
}

export function totals(nodes: MapNode[]): Totals {
  const sum: Totals = { free: 0, mine: 0, others: 0, broken: 0 };
  for (const n of nodes) for (const c of n.cells) sum[c]++;
  return sum;
}

export interface Placed {
  node: MapNode;
  x: number;
  y: number;
}

export interface Layout {
  cell: number;
  gap: number;
  /** Cells of one row of a node. */
  across: number;
  label: number;
  blockWidth: number;
  blockHeight: number;
  placed: Placed[];
  height: number;
}

/**
 * layout places each node as a block of cells within a width. Cells shrink as their number grows, and names are left out
 * when there is no room to read them.
 */
export function layout(nodes: MapNode[], width: number): Layout {
  const most = Math.max(1, ...nodes.map((n) => n.cells.length));
  const all = nodes.reduce((sum, n) => sum + n.cells.length, 0);
  const least = all <= 64 ? 20 : all <= 256 ? 16 : all <= 1024 ? 11 : all <= 4096 ? 7 : 5;
  const gap = least >= 16 ? 3 : least >= 11 ? 2 : 1;
  const label = least >= 11 ? 22 : 0;
  const across = Math.min(most, least >= 16 ? 8 : 4);
  const rows = Math.ceil(most / across);
  const space = least >= 16 ? 26 : least >= 11 ? 14 : 6;
  const wide = (cell: number) => across * (cell + gap) - gap;
  const fit = Math.max(1, Math.floor((width + space) / (wide(least) + space)));
  // Lines of equal length look calmer than a last one with a rest, and cells grow into the room that is left.
  const columns = Math.max(1, Math.ceil(nodes.length / Math.ceil(nodes.length / fit)));
  const room = ((width + space) / columns - space + gap) / across - gap;
  const cell = label > 0 ? Math.max(least, Math.min(least * 1.7, Math.floor(room))) : least;
  const blockWidth = wide(cell);
  const blockHeight = label + rows * (cell + gap) - gap;
  const placed = nodes.map((node, i) => ({
    node,
    x: (i % columns) * (blockWidth + space),
    y: Math.floor(i / columns) * (blockHeight + space),
  }));
  const lines = Math.ceil(nodes.length / columns);
  return { cell, gap, across, label, blockWidth, blockHeight, placed, height: Math.max(0, lines * (blockHeight + space) - space) };
}

/** hit finds the node at a point. */
export function hit(l: Layout, x: number, y: number): MapNode | undefined {
  return l.placed.find((p) => x >= p.x && x < p.x + l.blockWidth && y >= p.y && y < p.y + l.blockHeight)?.node;
}
