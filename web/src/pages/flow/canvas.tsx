import { For, Show, batch, createMemo, createSignal, onCleanup, onMount, type JSX } from "solid-js";
import { between, boxOf, curve, grid, nearest, overlaps, pathOf, portAt, seen, toDrawing, under, type Box, type Point } from "../../core/flow/geometry";
import { named } from "../../core/flow/rules";
import type { End } from "../../core/flow/types";
import { dragType } from "./kinds";
import { EdgeShape, Far, NodeShape } from "./shapes";
import type { Drag, Editor } from "./editor";

/** How many nodes are drawn one by one, how small they may be, and how many more of them a frame draws. */
const many = 260;
const small = 0.25;
const some = 16;

type Doing =
  | { is: "pan"; from: Point; view: { x: number; y: number } }
  | { is: "move"; from: Point; moved: boolean; id: string; toggles: boolean }
  | { is: "box"; from: Point; to: Point; more: boolean }
  | { is: "link"; side: "in" | "out"; end: End; from: Point; to: Point };

/** Canvas shows the drawing, and changes it with the mouse, a finger or keys. */
export function Canvas(props: { ed: Editor; inspect: () => void; chooseTarget: () => void; label: string }): JSX.Element {
  const ed = props.ed;
  let svg: SVGSVGElement | undefined;
  const [doing, setDoing] = createSignal<Doing | null>(null);
  const [over, setOver] = createSignal("");
  let frame = 0;
  let latest: PointerEvent | null = null;

  // The corner is kept while the canvas is pressed: asking for it would lay out what the press has just changed.
  let corner: DOMRect | undefined;
  const here = (e: { clientX: number; clientY: number }): Point => {
    const r = doing() ? (corner ??= svg!.getBoundingClientRect()) : svg!.getBoundingClientRect();
    return { x: e.clientX - r.left, y: e.clientY - r.top };
  };
  const inDrawing = (e: { clientX: number; clientY: number }) => toDrawing(ed.view(), here(e));
  const reach = () => Math.min(24, 10 / ed.view().k);
  const hit = (p: Point) => under(ed.graph(), ed.kinds, p, reach());

  onMount(() => {
    let first = true;
    const watch = new ResizeObserver(() => {
      ed.setSize({ width: svg!.clientWidth, height: svg!.clientHeight });
      if (first && svg!.clientWidth > 0) ed.fit();
      if (svg!.clientWidth > 0) first = false;
    });
    watch.observe(svg!);
    onCleanup(() => {
      watch.disconnect();
      cancelAnimationFrame(frame);
    });
  });

  const wheel = (e: WheelEvent) => {
    e.preventDefault();
    if (e.ctrlKey || e.metaKey) return ed.zoom(Math.exp(-e.deltaY * (e.deltaMode === 1 ? 0.05 : 0.004)), here(e));
    const step = e.deltaMode === 1 ? 20 : 1;
    const v = ed.view();
    ed.setView({ ...v, x: v.x - (e.shiftKey && e.deltaX === 0 ? e.deltaY : e.deltaX) * step, y: v.y - (e.shiftKey && e.deltaX === 0 ? 0 : e.deltaY) * step });
  };
  onMount(() => {
    svg!.addEventListener("wheel", wheel, { passive: false });
    onCleanup(() => svg!.removeEventListener("wheel", wheel));
  });

  const begin = (d: Doing): void => void setDoing(d);
  let letGo: ReturnType<typeof setTimeout> | undefined;
  const release = () => (letGo = setTimeout(() => ed.setHeld(false)));
  onCleanup(() => clearTimeout(letGo));
  const down = (e: PointerEvent): void => {
    if (e.button > 1) return;
    clearTimeout(letGo);
    corner = svg!.getBoundingClientRect();
    const p = inDrawing(e);
    svg!.focus({ preventScroll: true });
    svg!.setPointerCapture(e.pointerId);
    ed.setHeld(true);
    const more = e.shiftKey || e.ctrlKey || e.metaKey;
    const h = e.button === 1 ? null : hit(p);
    if (h?.on === "port" && !ed.readOnly) {
      const n = ed.node(h.end.node)!;
      const at = portAt(ed.kinds, n, h.side, h.end.port)!;
      return begin({ is: "link", side: h.side, end: h.end, from: { x: n.position.x + at.x, y: n.position.y + at.y }, to: p });
    }
    const id = h?.on === "node" ? h.id : h?.on === "port" ? h.end.node : "";
    if (id) {
      const had = ed.nodes().has(id);
      if (more && !had) ed.select([...ed.nodes(), id], ed.edges());
      else if (!had) ed.select([id]);
      return begin({ is: "move", from: p, moved: false, id, toggles: more && had });
    }
    if (h?.on === "edge") {
      ed.select(more ? ed.nodes() : [], more ? [...ed.edges(), h.id] : [h.id]);
      return;
    }
    if (e.shiftKey) return begin({ is: "box", from: p, to: p, more: true });
    begin({ is: "pan", from: here(e), view: ed.view() });
  };

  const follow = () => {
    frame = 0;
    const e = latest;
    const d = doing();
    if (!e) return;
    const p = inDrawing(e);
    if (!d) {
      const h = hit(p);
      setOver(h?.on === "port" ? "port" : h ? "thing" : "");
      return;
    }
    if (d.is === "pan") {
      const at = here(e);
      ed.setView({ ...ed.view(), x: d.view.x + at.x - d.from.x, y: d.view.y + at.y - d.from.y });
    } else if (d.is === "move") {
      if (ed.readOnly) return;
      const near = Math.hypot(p.x - d.from.x, p.y - d.from.y) * ed.view().k < 4;
      if (near && !d.moved) return;
      d.moved = true;
      const first = ed.node(d.id)!.position;
      const snap = (v: number, by: number) => Math.round((v + by) / grid) * grid - v;
      ed.setDrag({ nodes: ed.nodes(), dx: snap(first.x, p.x - d.from.x), dy: snap(first.y, p.y - d.from.y) });
    } else if (d.is === "box" || d.is === "link") setDoing({ ...d, to: p });
  };
  const moves = (e: PointerEvent) => {
    latest = e;
    frame ||= requestAnimationFrame(follow);
  };

  const up = (e: PointerEvent) => {
    latest = e;
    cancelAnimationFrame(frame);
    follow();
    const d = doing();
    setDoing(null);
    const moved = ed.drag();
    release();
    batch(() => {
      ed.setDrag(null);
      if (d) finish(d, moved, e);
    });
  };
  const finish = (d: Doing, moved: Drag | null, e: PointerEvent) => {
    if (d.is === "move" && moved && (moved.dx !== 0 || moved.dy !== 0)) ed.move(moved.nodes, moved.dx, moved.dy);
    else if (d.is === "move" && d.toggles && !d.moved) ed.toggle(d.id);
    else if (d.is === "pan" && Math.hypot(here(e).x - d.from.x, here(e).y - d.from.y) < 4) ed.select([]);
    else if (d.is === "box") ed.selectIn(between(d.from, d.to), d.more);
    else if (d.is === "link") linked(d, inDrawing(e));
  };
  const linked = (d: Doing & { is: "link" }, p: Point) => {
    const h = hit(p);
    if (!h || h.on === "edge") return;
    const id = h.on === "node" ? h.id : h.end.node;
    const n = ed.node(id)!;
    if (id === d.end.node && Math.hypot(p.x - d.from.x, p.y - d.from.y) < 12) return ed.select([id]);
    if (d.side === "out") {
      const port = h.on === "port" && h.side === "in" ? h.end.port : ed.kinds.inputs(n)[0]?.id;
      ed.connect(d.end, { node: id, port: port ?? "" });
    } else {
      const port = h.on === "port" && h.side === "out" ? h.end.port : ed.kinds.outputs(n)[0]?.id;
      ed.connect({ node: id, port: port ?? "" }, d.end);
    }
  };
  const drop = (e: DragEvent) => {
    const kind = e.dataTransfer?.getData(dragType);
    if (!kind) return;
    e.preventDefault();
    const p = inDrawing(e);
    ed.add(kind, { x: p.x - 104, y: p.y - 28 });
    svg!.focus({ preventScroll: true });
  };
  const leave = () => {
    release();
    setDoing(null);
    ed.setDrag(null);
  };

  const arrows: Record<string, [number, number, "left" | "right" | "up" | "down"]> = {
    ArrowLeft: [-1, 0, "left"], ArrowRight: [1, 0, "right"], ArrowUp: [0, -1, "up"], ArrowDown: [0, 1, "down"],
  };
  const keys = (e: KeyboardEvent) => {
    const arrow = arrows[e.key];
    const ctrl = e.ctrlKey || e.metaKey;
    if (arrow && !ctrl) {
      e.preventDefault();
      const [x, y, way] = arrow;
      if (e.altKey || ed.readOnly) {
        const next = ed.single() ? nearest(ed.graph(), ed.single()!, way) : (ed.lines()[0]?.node.id ?? null);
        if (next) {
          ed.select([next]);
          ed.reveal(next);
        }
      } else if (ed.nodes().size > 0) {
        const by = e.shiftKey ? 1 : grid;
        ed.move(ed.nodes(), x * by, y * by, `keys ${[...ed.nodes()].join()}`);
        if (ed.single()) {
          ed.reveal(ed.single()!, false);
          const at = ed.node(ed.single()!)!.position;
          ed.say(`${named(ed.node(ed.single()!)!)} is at ${at.x}, ${at.y}`);
        }
      } else ed.setView({ ...ed.view(), x: ed.view().x - x * 60, y: ed.view().y - y * 60 });
      return;
    }
    if (ctrl || e.altKey) return;
    const act: Record<string, () => void> = {
      Delete: () => ed.remove(), Backspace: () => ed.remove(), Enter: props.inspect, c: props.chooseTarget, "+": () => ed.zoom(1.25), "=": () => ed.zoom(1.25), "-": () => ed.zoom(0.8), "0": () => ed.fit(),
      Escape: () => (doing() ? leave() : ed.select([])),
    };
    const run = act[e.key];
    if (!run) return;
    e.preventDefault();
    run();
  };

  const shown = createMemo(() => {
    const v = ed.view();
    if (v.k < small) return null;
    const box = seen(v, ed.size(), 60);
    const nodes = ed.graph().nodes.filter((n) => ed.dragged().has(n.id) || overlaps(boxOf(ed.kinds, n), box));
    if (nodes.length > many) return null;
    const inside = new Set(nodes.map((n) => n.id));
    const spans = (a: Box, b: Box) => overlaps(between({ x: a.x, y: a.y }, { x: b.x + b.width, y: b.y + b.height }), box);
    const edges = ed.graph().edges.filter((e) => {
      if (inside.has(e.source.node) || inside.has(e.target.node)) return true;
      const [a, b] = [ed.byId().get(e.source.node), ed.byId().get(e.target.node)];
      return !!a && !!b && spans(boxOf(ed.kinds, a), boxOf(ed.kinds, b));
    });
    return { nodes: nodes.map((n) => n.id), edges: edges.map((e) => e.id) };
  });
  // Much that comes into sight is drawn over some frames. The rest is a path meanwhile, as is all when it is far.
  const [frames, nextFrame] = createSignal(0);
  let more = 0;
  const growing = (want: () => string[], first: number) =>
    createMemo<string[]>((before) => {
      frames();
      const had = new Set(before);
      let left = before.length === 0 ? first : some;
      const now = want().filter((id) => had.has(id) || left-- > 0);
      if (left < 0) more ||= requestAnimationFrame(() => { more = 0; nextFrame((n) => n + 1); });
      return now;
    }, []);
  onCleanup(() => cancelAnimationFrame(more));
  const ids = growing(() => shown()?.nodes ?? [], 2 * some);
  const links = growing(() => shown()?.edges ?? [], 3 * some);
  const rest = createMemo(() => {
    const s = shown();
    if (!s) return { nodes: ed.graph().nodes, edges: ed.graph().edges };
    if (s.nodes.length === ids().length && s.edges.length === links().length) return null;
    const [a, b] = [new Set(ids()), new Set(links())];
    return { nodes: s.nodes.filter((id) => !a.has(id)).map((id) => ed.byId().get(id)!), edges: s.edges.filter((id) => !b.has(id)).map((id) => ed.edgeById().get(id)!) };
  }, null, { equals: (x, y) => x?.nodes === y?.nodes && x?.edges === y?.edges });
  const link = () => { const d = doing(); return d?.is === "link" ? d : null; };
  const box = () => { const d = doing(); return d?.is === "box" ? between(d.from, d.to) : null; };

  return (
    <svg ref={(el) => (svg = el)} class={`canvas ${over()} ${doing()?.is ?? ""}`} tabindex="0" role="application" aria-label={props.label} aria-describedby="canvas-keys"
      onPointerDown={down} onPointerMove={moves} onPointerUp={up} onPointerCancel={leave} onKeyDown={keys} onDragOver={(e) => e.dataTransfer?.types.includes(dragType) && e.preventDefault()} onDrop={drop} onDblClick={() => ed.single() && props.inspect()}>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="11" refY="4" markerWidth="8" markerHeight="8" orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0.5L7 4L0 7.5z" /></marker>
        <pattern id="dots" width="24" height="24" patternUnits="userSpaceOnUse" patternTransform={`translate(${ed.view().x} ${ed.view().y}) scale(${ed.view().k < 0.4 ? ed.view().k * 4 : ed.view().k})`}><circle cx="1" cy="1" r="1" /></pattern>
      </defs>
      <rect class="ground" width="100%" height="100%" fill="url(#dots)" />
      <g transform={`translate(${ed.view().x} ${ed.view().y}) scale(${ed.view().k})`} aria-hidden="true">
        <Show when={rest()}>{(r) => <Far ed={ed} nodes={r().nodes} edges={r().edges} />}</Show>
        <For each={links()}>{(id) => <EdgeShape ed={ed} id={id} />}</For>
        <For each={ids()}>{(id) => <NodeShape ed={ed} id={id} />}</For>
        <Show when={link()}>{(d) => <path class="link new line" d={pathOf(d().side === "out" ? curve(d().from, d().to) : curve(d().to, d().from))} />}</Show>
        <Show when={box()}>{(b) => <rect class="choose" x={b().x} y={b().y} width={b().width} height={b().height} />}</Show>
      </g>
    </svg>
  );
}
