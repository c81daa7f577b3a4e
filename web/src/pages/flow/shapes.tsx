// How nodes and edges are drawn.
import { For, Show, createMemo, type JSX } from "solid-js";
import { along, curve, endsOf, heightOf, pathOf, portAt, width } from "../../core/flow/geometry";
import { named } from "../../core/flow/rules";
import type { FlowEdge, FlowNode } from "../../core/flow/types";
import { titleOf, type Editor } from "./editor";

const cut = (text: string, most: number) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

/** shifted is a node where it is drawn, also while it is dragged. */
export function shifted(ed: Editor, n: FlowNode): FlowNode {
  if (!ed.dragged().has(n.id)) return n;
  const d = ed.drag()!;
  return { ...n, position: { x: n.position.x + d.dx, y: n.position.y + d.dy } };
}

export function NodeShape(props: { ed: Editor; id: string }): JSX.Element {
  const ed = props.ed;
  const n = createMemo<FlowNode>((before) => ed.byId().get(props.id) ?? before!);
  const spec = () => ed.kinds.of(n().type);
  const at = createMemo(() => { const p = shifted(ed, n()).position; return `translate(${p.x} ${p.y})`; });
  const height = () => heightOf(ed.kinds, n());
  const mark = createMemo(() => ed.marks().get(props.id));
  const selected = createMemo(() => ed.nodes().has(props.id));
  const problem = createMemo(() => ed.found().get(props.id));
  const ports = (side: "in" | "out") => (side === "in" ? ed.kinds.inputs(n()) : ed.kinds.outputs(n()));
  return (
    <g class={`node ${spec()?.category ?? "unknown"} ${mark()?.state ?? ""}`} classList={{ selected: selected(), [problem() ?? "fine"]: true }} transform={at()} data-node={props.id}>
      <rect class="box" width={width} height={height()} rx="10" />
      <path class="edge-of-box" d={`M10 0H4a4 4 0 0 0-4 4v${height() - 8}a4 4 0 0 0 4 4h6z`} />
      <text class="name" x="22" y="24">{cut(named(n()), 23)}</text>
      <text class="kind" x="22" y="42">{cut(mark()?.text || spec()?.label || n().type, 30)}</text>
      <Show when={spec() && !spec()!.runs && !mark()}><g class="badge" transform={`translate(${width - 96} -9)`}><rect width="92" height="17" rx="8.5" /><text x="46" y="12">does not run yet</text></g></Show>
      <Show when={n().breakpoint || n().config?.["breakpoint"] === true}><circle class="breakpoint" cx="0" cy="0" r="6"><title>Asks before it runs</title></circle></Show>
      <Show when={problem() && !mark()}><g class="flag" transform={`translate(${width - 20} 18)`}><circle r="8" /><text y="4">!</text></g></Show>
      <For each={ports("in")}>{(p) => <circle class="port" cx="0" cy={portAt(ed.kinds, n(), "in", p.id)?.y ?? 0} r="5" />}</For>
      <For each={ports("out")}>
        {(p) => (
          <>
            <Show when={ports("out").length > 1}><text class="port-name" x={width - 12} y={(portAt(ed.kinds, n(), "out", p.id)?.y ?? 0) + 4}>{cut(p.label || p.id, 9)}</text></Show>
            <circle class="port" cx={width} cy={portAt(ed.kinds, n(), "out", p.id)?.y ?? 0} r="5" />
          </>
        )}
      </For>
    </g>
  );
}

export function EdgeShape(props: { ed: Editor; id: string }): JSX.Element {
  const ed = props.ed;
  const e = createMemo<FlowEdge>((before) => ed.edgeById().get(props.id) ?? before!);
  const c = createMemo(() => {
    const [a, b] = [ed.byId().get(e().source.node), ed.byId().get(e().target.node)];
    const ends = a && b ? endsOf(ed.kinds, e(), shifted(ed, a), shifted(ed, b)) : null;
    return ends ? curve(...ends) : null;
  }, null, { equals: (a, b) => JSON.stringify(a) === JSON.stringify(b) });
  const selected = createMemo(() => ed.edges().has(props.id));
  const lit = createMemo(() => {
    const [a, b] = [ed.marks().get(e().source.node), ed.marks().get(e().target.node)];
    return !!a && !!b && a.state !== "idle" && b.state !== "idle";
  });
  const text = () => cut(titleOf(e()), 30);
  const middle = () => along(c()!, 0.5);
  return (
    <Show when={c()}>
      <g class={`link ${e().type}`} classList={{ selected: selected(), lit: lit(), [ed.found().get(props.id) ?? "fine"]: true }} data-edge={props.id}>
        <path class="line" d={pathOf(c()!)} marker-end="url(#arrow)" />
        <Show when={text()}>
          <g class="label" transform={`translate(${middle().x} ${middle().y})`}>
            <rect x={-(text().length * 3.3 + 8)} y="-10" width={text().length * 6.6 + 16} height="20" rx="10" />
            <text y="4">{text()}</text>
          </g>
        </Show>
      </g>
    </Show>
  );
}

/**
 * Far draws what is too small or too much to be read: a path for each category, and one for all edges. What is dragged is
 * drawn once and moved as a whole; in a frame, only the edges between it and the rest are drawn again.
 */
export function Far(props: { ed: Editor; nodes: FlowNode[]; edges: FlowEdge[] }): JSX.Element {
  const ed = props.ed;
  const groups = (moves: boolean) => createMemo(() => {
    const all = new Map<string, string>();
    for (const n of props.nodes) {
      if (ed.dragged().has(n.id) !== moves) continue;
      const mark = ed.marks().get(n.id)?.state;
      const name = `${ed.kinds.of(n.type)?.category ?? "unknown"} ${mark ?? ""} ${ed.nodes().has(n.id) ? "selected" : ""}`;
      all.set(name, `${all.get(name) ?? ""}M${n.position.x} ${n.position.y}h${width}v${heightOf(ed.kinds, n)}h-${width}z`);
    }
    return [...all];
  });
  const lines = (moving: number) => createMemo(() => {
    let d = "";
    for (const e of props.edges) {
      const [from, to] = [ed.dragged().has(e.source.node), ed.dragged().has(e.target.node)];
      if (Number(from) + Number(to) !== moving) continue;
      const [a, b] = [ed.byId().get(e.source.node), ed.byId().get(e.target.node)];
      if (!a || !b) continue;
      const ends = moving === 1 ? endsOf(ed.kinds, e, shifted(ed, a), shifted(ed, b)) : endsOf(ed.kinds, e, a, b);
      if (ends) d += `M${ends[0].x} ${ends[0].y}L${ends[1].x} ${ends[1].y}`;
    }
    return d;
  });
  const [still, moved, stillLines, crossing, movedLines] = [groups(false), groups(true), lines(0), lines(1), lines(2)];
  const shift = () => `translate(${ed.drag()?.dx ?? 0} ${ed.drag()?.dy ?? 0})`;
  return (
    <g class="far">
      <path class="line" d={stillLines()} />
      <path class="line" d={crossing()} />
      <For each={still()}>{([name, d]) => <path class={`node ${name}`} d={d} />}</For>
      <Show when={ed.dragged().size > 0}>
        <g transform={shift()}>
          <path class="line" d={movedLines()} />
          <For each={moved()}>{([name, d]) => <path class={`node ${name}`} d={d} />}</For>
        </g>
      </Show>
    </g>
  );
}
