import { For, Show, createMemo, type JSX } from "solid-js";
import { around, fit, heightOf, seen, width } from "../../core/flow/geometry";
import type { Editor } from "./editor";

const size = { width: 176, height: 112 };

/** Minimap shows the whole drawing and the part that is seen; a click goes there. */
export function Minimap(props: { ed: Editor }): JSX.Element {
  const ed = props.ed;
  const view = createMemo(() => fit(around(ed.kinds, ed.graph().nodes), size, 8, 0.2));
  const groups = createMemo(() => {
    const all = new Map<string, string>();
    for (const n of ed.graph().nodes) {
      const name = `${ed.kinds.of(n.type)?.category ?? "unknown"} ${ed.marks().get(n.id)?.state ?? ""}`;
      all.set(name, `${all.get(name) ?? ""}M${n.position.x} ${n.position.y}h${width}v${heightOf(ed.kinds, n)}h-${width}z`);
    }
    return [...all];
  });
  const window = () => seen(ed.view(), ed.size());
  const go = (e: PointerEvent & { currentTarget: SVGSVGElement }) => {
    if (e.type === "pointermove" && e.buttons !== 1) return;
    const r = e.currentTarget.getBoundingClientRect();
    const v = view();
    const [x, y] = [(e.clientX - r.left - v.x) / v.k, (e.clientY - r.top - v.y) / v.k];
    const k = ed.view().k;
    ed.setView({ k, x: ed.size().width / 2 - x * k, y: ed.size().height / 2 - y * k });
  };
  return (
    <Show when={ed.graph().nodes.length > 0}>
      <svg class="minimap" width={size.width} height={size.height} aria-hidden="true" onPointerDown={go} onPointerMove={go}>
        <g transform={`translate(${view().x} ${view().y}) scale(${view().k})`}>
          <For each={groups()}>{([name, d]) => <path class={`node ${name}`} d={d} />}</For>
          <rect class="window" x={window().x} y={window().y} width={window().width} height={window().height} vector-effect="non-scaling-stroke" />
        </g>
      </svg>
    </Show>
  );
}
