import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { createEffect, createSignal, onCleanup, onMount, type JSX } from "solid-js";
import { value, type Curve } from "../core/curves";

/** Chart draws a curve. What it shows is said in its label, too. */
export function Chart(props: { curve: Curve; steps: boolean; log: boolean; height: number; sync: string }): JSX.Element {
  let box: HTMLDivElement | undefined;
  let plot: uPlot | undefined;
  const [width, setWidth] = createSignal(0);
  const [theme, setTheme] = createSignal(0);
  onMount(() => {
    const seen = new ResizeObserver(([e]) => setWidth(Math.floor(e?.contentRect.width ?? 0)));
    seen.observe(box!);
    const repaint = () => setTheme(theme() + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", repaint);
    addEventListener("themechange", repaint);
    onCleanup(() => {
      seen.disconnect();
      dark.removeEventListener("change", repaint);
      removeEventListener("themechange", repaint);
    });
  });
  let made = "";
  createEffect(() => {
    const c = props.curve;
    if (width() === 0) return;
    const data: uPlot.AlignedData = [c.x, ...c.lines.flatMap((l) => [l.min, l.max, l.last])];
    // What the chart is made of decides whether it is made again; new points are only set.
    const shape = [theme(), props.log, props.steps, c.lines.map((l) => l.attempt).join(), c.name].join("|");
    if (plot && shape === made) {
      plot.setData(data);
      if (plot.width !== width()) plot.setSize({ width: width(), height: props.height });
      return;
    }
    made = shape;
    plot?.destroy();
    plot = new uPlot(options(box!, c, width(), props), data, box!);
  });
  onCleanup(() => plot?.destroy());
  const label = () => `${props.curve.name} over ${props.steps ? "steps" : "time"}: ${props.curve.x.length} points, now ${value(props.curve.newest, props.curve.unit)}`;
  return <div class="chart" ref={(el) => (box = el)} role="img" aria-label={label()} />;
}

function options(box: HTMLElement, c: Curve, width: number, props: { steps: boolean; log: boolean; height: number; sync: string }): uPlot.Options {
  const style = getComputedStyle(box);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const [accent, soft, line, others] = ["--accent", "--soft", "--line", "--cell-others"].map(colour) as [string, string, string, string];
  const font = `12px ${style.fontFamily}`;
  const axis: uPlot.Axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const series: uPlot.Series[] = [{ label: props.steps ? "step" : "time" }];
  const bands: uPlot.Band[] = [];
  c.lines.forEach((l, i) => {
    const newest = i === c.lines.length - 1;
    const stroke = newest ? accent : others;
    const at = series.length;
    series.push(
      { label: `min ${l.attempt}`, width: 0, points: { show: false } },
      { label: `max ${l.attempt}`, width: 0, points: { show: false } },
      { label: c.lines.length > 1 ? `attempt ${l.attempt}` : c.name, stroke, width: newest ? 1.75 : 1.25, points: { show: false }, spanGaps: true },
    );
    bands.push({ series: [at + 1, at], fill: newest ? `color-mix(in srgb, ${accent} 20%, transparent)` : "transparent" });
  });
  return {
    width, height: props.height, series, bands,
    scales: { x: { time: !props.steps }, y: { distr: props.log ? 3 : 1 } },
    axes: [
      { ...axis, size: 28, grid: { show: false } },
      { ...axis, size: 58, values: (_, all) => all.map((v) => (v === null ? "" : value(v, c.unit))) },
    ],
    legend: { show: false },
    cursor: { sync: { key: props.sync }, points: { size: 6 }, y: false },
    padding: [10, 10, 0, 0],
    hooks: {
      setCursor: [(u) => {
        const i = u.cursor.idx;
        const says = i === null || i === undefined ? "" : c.lines.map((l) => l.last[i]).filter((v) => v !== null && v !== undefined).map((v) => value(v, c.unit)).join(" · ");
        box.dataset["at"] = says && i !== null && i !== undefined ? `${props.steps ? `step ${c.x[i]}` : new Date(c.x[i]! * 1000).toLocaleTimeString()}: ${says}` : "";
      }],
    },
  };
}
