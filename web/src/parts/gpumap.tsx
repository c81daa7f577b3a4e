import { useNavigate } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createSignal, onCleanup, onMount, type JSX } from "solid-js";
import { hit, layout, totals, type Cell, type Layout, type MapNode } from "../core/map";
import { count } from "../core/format";
import { NodeStatus } from "./parts";

const words: [Cell, string][] = [["mine", "yours"], ["others", "others'"], ["free", "free"], ["broken", "not healthy"]];

/** GpuMap draws every GPU. The table says the same in words. */
export function GpuMap(props: { nodes: MapNode[] }): JSX.Element {
  const [table, setTable] = createSignal(false);
  const sum = createMemo(() => totals(props.nodes));
  return (
    <section class="panel map" aria-labelledby="map-title">
      <header>
        <h2 id="map-title">GPUs</h2>
        <ul class="legend">
          <For each={words}>
            {([cell, word]) => (
              <Show when={cell !== "broken" || sum().broken > 0}>
                <li><i class={`cell ${cell}`} aria-hidden="true" /><b>{count(sum()[cell])}</b> {word}</li>
              </Show>
            )}
          </For>
        </ul>
        <button class="quiet" aria-pressed={table()} onClick={() => setTable(!table())}>{table() ? "Map" : "Table"}</button>
      </header>
      <Show when={table()} fallback={<Picture nodes={props.nodes} />}><MapTable nodes={props.nodes} /></Show>
    </section>
  );
}

function Picture(props: { nodes: MapNode[] }): JSX.Element {
  let box: HTMLDivElement | undefined;
  let canvas: HTMLCanvasElement | undefined;
  const navigate = useNavigate();
  const [width, setWidth] = createSignal(0);
  const [over, setOver] = createSignal<MapNode | undefined>();
  const [theme, setTheme] = createSignal(0);
  const placed = createMemo(() => layout(props.nodes, width()));
  onMount(() => {
    setWidth(box!.clientWidth);
    const seen = new ResizeObserver(([e]) => setWidth(Math.floor(e?.contentRect.width ?? 0)));
    seen.observe(box!);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => setTheme(theme() + 1);
    dark.addEventListener("change", repaint);
    addEventListener("themechange", repaint);
    onCleanup(() => {
      seen.disconnect();
      dark.removeEventListener("change", repaint);
      removeEventListener("themechange", repaint);
    });
  });
  let frame = 0;
  createEffect(() => {
    const l = placed();
    theme();
    if (width() === 0) return;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => paint(canvas!, l, width()));
  });
  onCleanup(() => cancelAnimationFrame(frame));
  const at = (e: MouseEvent) => hit(placed(), e.offsetX, e.offsetY);
  const label = () => {
    const t = totals(props.nodes);
    return `${props.nodes.length} nodes: ${t.mine} GPUs yours, ${t.others} others', ${t.free} free, ${t.broken} not healthy. The table has each node.`;
  };
  return (
    <div class="picture" ref={(el) => (box = el)}>
      <canvas ref={(el) => (canvas = el)} style={{ height: `${placed().height}px` }} role="img" aria-label={label()} classList={{ over: !!over() }}
        onMouseMove={(e) => setOver(at(e))} onMouseLeave={() => setOver(undefined)}
        onClick={(e) => { const n = at(e); if (n) navigate(`/nodes/${encodeURIComponent(n.id)}`); }} />
      <p class="under" aria-hidden="true">
        <Show when={over()} fallback={"\u00a0"}>{(n) => <><b>{n().id}</b> {n().type} · {n().state.toLowerCase()} · {says(n())}</>}</Show>
      </p>
    </div>
  );
}

function says(n: MapNode): string {
  const t = totals([n]);
  return words.filter(([cell]) => t[cell] > 0).map(([cell, word]) => `${t[cell]} ${word}`).join(", ");
}

function paint(canvas: HTMLCanvasElement, l: Layout, width: number): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(l.height * ratio);
  const g = canvas.getContext("2d");
  if (!g) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const fill: Record<Cell, string> = {
    mine: colour("--cell-mine"), others: colour("--cell-others"), free: colour("--cell-free"), broken: colour("--bad"),
  };
  const [line, ink, soft, bad, page] = ["--cell-line", "--ink", "--soft", "--bad", "--page"].map(colour) as [string, string, string, string, string];
  const crosses: [number, number][] = [];
  const bars: [number, number, number][] = [];
  g.scale(ratio, ratio);
  g.font = `500 12px ${style.fontFamily}`;
  g.textBaseline = "top";
  const radius = l.cell >= 11 ? 3 : 0;
  // One path for each colour: ten thousand cells are then drawn in a few milliseconds.
  const paths = new Map<string, Path2D>();
  const draw = (kind: string, x: number, y: number, size: number, round: number) => {
    let p = paths.get(kind);
    if (!p) paths.set(kind, (p = new Path2D()));
    if (round > 0) p.roundRect(x, y, size, size, round);
    else p.rect(x, y, size, size);
  };
  for (const { node, x, y } of l.placed) {
    const away = node.state !== "READY";
    if (l.label > 0) {
      g.fillStyle = away ? bad : ink;
      g.fillText(node.id, x, y, l.blockWidth);
      const w = g.measureText(node.id).width + 8;
      g.fillStyle = soft;
      if (w + g.measureText(node.type).width <= l.blockWidth) g.fillText(node.type, x + w, y);
    }
    for (let i = 0; i < node.cells.length; i++) {
      const cell = node.cells[i]!;
      const cx = x + (i % l.across) * (l.cell + l.gap);
      const cy = y + l.label + Math.floor(i / l.across) * (l.cell + l.gap);
      draw(away ? `away ${cell}` : cell, cx, cy, l.cell, radius);
      if (l.cell < 11) continue;
      if (cell === "free") draw("line", cx + 0.5, cy + 0.5, l.cell - 1, radius);
      if (cell === "broken") crosses.push([cx, cy]);
      const busy = node.busy[i] ?? -1;
      if (cell === "mine" && busy > 0) bars.push([cx + 3, cy + l.cell - 5, ((l.cell - 6) * Math.min(10, busy + 1)) / 10]);
    }
  }
  for (const [kind, path] of paths) {
    if (kind === "line") continue;
    g.globalAlpha = kind.startsWith("away") ? 0.45 : 1;
    g.fillStyle = fill[kind.replace("away ", "") as Cell];
    g.fill(path);
  }
  g.globalAlpha = 1;
  const outline = paths.get("line");
  if (outline) {
    g.strokeStyle = line;
    g.stroke(outline);
  }
  for (const [x, y] of crosses) cross(g, x, y, l.cell, page);
  g.fillStyle = "#fff";
  g.globalAlpha = 0.85;
  for (const [x, y, w] of bars) g.fillRect(x, y, w, 2);
  g.globalAlpha = 1;
}

function cross(g: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  const pad = size * 0.3;
  g.strokeStyle = colour;
  g.lineWidth = 1.5;
  g.beginPath();
  g.moveTo(x + pad, y + pad);
  g.lineTo(x + size - pad, y + size - pad);
  g.moveTo(x + size - pad, y + pad);
  g.lineTo(x + pad, y + size - pad);
  g.stroke();
}

function MapTable(props: { nodes: MapNode[] }): JSX.Element {
  return (
    <div class="scroll" tabindex="0" role="region" aria-label="GPUs by node">
      <table>
        <thead><tr><th scope="col">Node</th><th scope="col">State</th><th scope="col">Type</th><For each={words}>{([, w]) => <th scope="col" class="number">{w}</th>}</For></tr></thead>
        <tbody>
          <For each={props.nodes}>
            {(n) => (
              <tr>
                <th scope="row">{n.id}</th>
                <td><NodeStatus state={n.state} /></td>
                <td>{n.type}</td>
                <For each={words}>{([cell]) => <td class="number">{n.cells.filter((c) => c === cell).length}</td>}</For>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  );
}
