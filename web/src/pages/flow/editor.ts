// The state of a canvas: the drawing with its history, what is selected, what is seen, and what is being done.
import { batch, createMemo, createSignal } from "solid-js";
import { copy, parse, paste } from "../../core/flow/clip";
import { around, boxOf, fit, overlaps, seen, toDrawing, zoomed, type Box, type Point, type View } from "../../core/flow/geometry";
import { add, configure, freshId, move, place, remove, setEdge, setNode, setOutputs, type Kinds } from "../../core/flow/graph";
import { History } from "../../core/flow/history";
import { layout } from "../../core/flow/layout";
import { outline } from "../../core/flow/outline";
import { connect, named } from "../../core/flow/rules";
import type { Diagnostic, End, FlowEdge, FlowNode, Graph, Port } from "../../core/flow/types";

export interface Drag {
  nodes: ReadonlySet<string>;
  dx: number;
  dy: number;
}

const nothing: ReadonlySet<string> = new Set();

/** What a run shows of a node. */
export interface Mark {
  state: "runs" | "waits" | "done" | "failed" | "idle";
  text: string;
}

export type Editor = ReturnType<typeof createEditor>;

export function createEditor(kinds: Kinds, start: Graph, readOnly = false) {
  const history = new History(start);
  const [graph, setGraph] = createSignal(start);
  const [steps, setSteps] = createSignal<{ undoes: string | null; redoes: string | null }>({ undoes: null, redoes: null });
  const [nodes, setNodes] = createSignal(nothing);
  const [edges, setEdges] = createSignal(nothing);
  const [view, setView] = createSignal<View>({ x: 0, y: 0, k: 1 });
  const [size, setSize] = createSignal({ width: 0, height: 0 });
  const [drag, setDrag] = createSignal<Drag | null>(null);
  /** dragged stays the same while nodes are dragged: what does not move with them does nothing in a frame. */
  const dragged = createMemo(() => drag()?.nodes ?? nothing);
  const [held, setHeld] = createSignal(false);
  const [problems, setProblems] = createSignal<Diagnostic[]>([]);
  const [marks, setMarks] = createSignal<ReadonlyMap<string, Mark>>(new Map());
  /** said is the last thing that a screen reader is told, and the status line shows. */
  const [said, say] = createSignal("");

  const byId = createMemo(() => new Map(graph().nodes.map((n) => [n.id, n])));
  const edgeById = createMemo(() => new Map(graph().edges.map((e) => [e.id, e])));
  const lines = createMemo(() => outline(graph(), kinds));
  const found = createMemo(() => {
    const all = new Map<string, "error" | "warning">();
    for (const d of problems()) {
      for (const id of [d.node_id, d.edge_id]) if (id && all.get(id) !== "error") all.set(id, d.severity);
    }
    return all;
  });
  const single = createMemo(() => (nodes().size === 1 && edges().size === 0 ? [...nodes()][0]! : null));
  const singleEdge = createMemo(() => (edges().size === 1 && nodes().size === 0 ? [...edges()][0]! : null));

  const show = (g: Graph) =>
    batch(() => {
      setGraph(g);
      setSteps({ undoes: history.undoes, redoes: history.redoes });
      const keep = (s: ReadonlySet<string>, have: { has(id: string): boolean }) => ([...s].every((id) => have.has(id)) ? s : new Set([...s].filter((id) => have.has(id))));
      setNodes((s) => keep(s, byId()));
      setEdges((s) => keep(s, edgeById()));
    });
  const apply = (next: Graph, name: string, key = "") => {
    if (!readOnly) show(history.apply(next, name, key));
  };
  const select = (n: Iterable<string>, e: Iterable<string> = []) =>
    batch(() => {
      history.seal();
      setNodes(new Set(n));
      setEdges(new Set(e));
      const one = single() ? byId().get(single()!) : undefined;
      if (one) say(spoken(one));
      else if (nodes().size > 1) say(`${nodes().size} nodes selected`);
    });
  const spoken = (n: FlowNode) => {
    const p = found().get(n.id);
    return `${named(n)}, ${kinds.of(n.type)?.label ?? n.type}${p ? `, has ${p === "error" ? "an error" : "a warning"}` : ""}`;
  };
  const center = () => toDrawing(view(), { x: size().width / 2, y: size().height / 2 });

  const ed = {
    kinds, readOnly, graph, steps, nodes, edges, view, setView, size, setSize, drag, setDrag, dragged, problems, setProblems, found, marks, setMarks,
    said, say, byId, edgeById, lines, single, singleEdge, select, spoken, apply, center,
    seal: () => history.seal(),
    /** The server's words about the drawing: they are no step. */
    adopt: (change: (g: Graph) => Graph) => show(history.replace(change)),
    node: (id: string): FlowNode | undefined => byId().get(id),
    /** True while the canvas is pressed: what is costly to show waits for the end of it. */
    held, setHeld,

    undo() {
      const what = history.undoes;
      if (readOnly || what === null) return;
      show(history.undo());
      say(`Undone: ${what}`);
    },
    redo() {
      const what = history.redoes;
      if (readOnly || what === null) return;
      show(history.redo());
      say(`Done again: ${what}`);
    },
    toggle(id: string) {
      const next = new Set(nodes());
      if (!next.delete(id)) next.add(id);
      select(next, edges());
    },
    selectAll: () => select(graph().nodes.map((n) => n.id), graph().edges.map((e) => e.id)),
    selectIn(box: Box, more: boolean) {
      const inside = graph().nodes.filter((n) => overlaps(boxOf(kinds, n), box)).map((n) => n.id);
      select(more ? [...nodes(), ...inside] : inside);
    },

    /** add puts a node at a place, or into the middle of what is seen, and leads the selected node to it if that may be. */
    add(kind: string, at?: Point) {
      const spec = kinds.of(kind);
      if (!spec || readOnly) return;
      const from = at ? null : single();
      const before = from ? byId().get(from) : undefined;
      const spot = at ?? (before ? beside(before) : { x: center().x - 104, y: center().y - 28 });
      const made = add(graph(), spec, vacant(graph(), spot));
      let next = made.graph;
      if (before && spec.inputs[0]) {
        for (const port of kinds.outputs(before)) {
          if (next.edges.some((e) => e.source.node === before.id && e.source.port === port.id) && before.type !== "logic_decision") continue;
          const joined = connect(next, kinds, { node: before.id, port: port.id }, { node: made.id, port: spec.inputs[0].id });
          if (!("why" in joined)) next = joined.graph;
          break;
        }
      }
      apply(next, `add ${spec.label}`);
      select([made.id]);
      ed.reveal(made.id);
      return made.id;
    },
    connect(from: End, to: End) {
      const made = connect(graph(), kinds, from, to);
      if ("why" in made) {
        say(made.why);
        return false;
      }
      apply(made.graph, "connect");
      select([], [made.id]);
      say(`Connected to ${named(byId().get(to.node)!)}`);
      return true;
    },
    remove() {
      const [n, e] = [nodes(), edges()];
      if (readOnly || n.size + e.size === 0) return;
      const text = n.size > 0 ? `delete ${n.size === 1 ? named(byId().get([...n][0]!)!) : `${n.size} nodes`}` : "delete the edge";
      apply(remove(graph(), n, e), text);
      say(`Done: ${text}. Ctrl Z brings it back`);
    },
    move(by: ReadonlySet<string>, dx: number, dy: number, key = "") {
      apply(move(graph(), by, dx, dy), by.size === 1 ? `move ${named(byId().get([...by][0]!)!)}` : `move ${by.size} nodes`, key);
    },
    rename: (id: string, label: string) => apply(setNode(graph(), id, { label }), "rename", `label ${id}`),
    configure: (id: string, field: string, value: unknown) => apply(configure(graph(), id, field, value), `set ${field}`, `config ${id} ${field}`),
    setNode: (id: string, change: Parameters<typeof setNode>[2], name: string) => apply(setNode(graph(), id, change), name),
    setOutputs: (id: string, ports: Port[], key = "") => apply(setOutputs(graph(), id, ports), "change the outputs", key),
    setEdge: (id: string, change: Parameters<typeof setEdge>[2], key = "") => apply(setEdge(graph(), id, change), "change the edge", key),
    setHead: (change: Partial<Graph>, name: string) => apply({ ...graph(), ...change }, name, name),
    layout() {
      apply(place(graph(), layout(graph(), kinds)), "arrange");
      ed.fit();
      say("Arranged. Ctrl Z brings the places back");
    },

    copied: () => (nodes().size > 0 ? copy(graph(), nodes()) : ""),
    paste(text: string) {
      const clip = parse(text);
      if (!clip || readOnly) return false;
      // Each further copy is beside the one before.
      let by = 24;
      const taken = new Set(graph().nodes.map((n) => `${n.position.x} ${n.position.y}`));
      while (clip.nodes.some((n) => taken.has(`${n.position.x + by} ${n.position.y + by}`))) by += 24;
      const made = paste(graph(), clip, { x: by, y: by });
      apply(made.graph, `paste ${made.ids.size === 1 ? "a node" : `${made.ids.size} nodes`}`);
      select(made.ids);
      return true;
    },

    zoom(by: number, at?: Point) {
      setView(zoomed(view(), by, at ?? { x: size().width / 2, y: size().height / 2 }));
    },
    fit: () => setView(fit(around(kinds, graph().nodes), size())),
    /** reveal moves the view so that a node is seen, and can be read. */
    reveal(id: string, read = true) {
      const n = byId().get(id);
      if (!n || size().width === 0) return;
      const [box, v, margin] = [boxOf(kinds, n), view(), 40];
      const s = seen(v, size(), -margin);
      if ((v.k >= 0.4 || !read) && box.x >= s.x && box.y >= s.y && box.x + box.width <= s.x + s.width && box.y + box.height <= s.y + s.height) return;
      const k = read ? Math.max(v.k, 0.5) : v.k;
      setView({ k, x: size().width / 2 - (box.x + box.width / 2) * k, y: size().height / 2 - (box.y + box.height / 2) * k });
    },
    /** jump selects what a problem is about, and shows it. */
    jump(d: { node_id?: string | null; edge_id?: string | null }) {
      const edge = d.edge_id ? edgeById().get(d.edge_id) : undefined;
      const node = d.node_id ?? edge?.source.node;
      if (edge && !d.node_id) select([], [edge.id]);
      else if (node && byId().has(node)) select([node]);
      if (node) ed.reveal(node);
    },
    newEdgeId: () => freshId("edge", (x) => edgeById().has(x)),
  };

  function beside(n: FlowNode): Point {
    return { x: n.position.x + 296, y: n.position.y };
  }
  // vacant is the place itself, or one below that no node covers.
  function vacant(g: Graph, at: Point): Point {
    const spot = { x: Math.round(at.x / 8) * 8, y: Math.round(at.y / 8) * 8 };
    const boxes = g.nodes.map((n) => boxOf(kinds, n));
    while (boxes.some((b) => overlaps(b, { ...spot, width: 208, height: 56 }))) spot.y += 24;
    return spot;
  }
  return ed;
}

/** titleOf is how an edge is written where it is drawn. */
export function titleOf(e: FlowEdge): string {
  return e.type === "conditional" ? (e.condition || "no condition yet") : e.type === "data" ? "data" : "";
}
