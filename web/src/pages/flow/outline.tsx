import { For, Show, createEffect, createMemo, createSignal, type JSX } from "solid-js";
import { search, type Line } from "../../core/flow/outline";
import { named } from "../../core/flow/rules";
import type { Editor } from "./editor";

const most = 120;

/** Outline lists the nodes in the order of the flow. Everything that the canvas does is done here too, by keys. */
export function Outline(props: { ed: Editor; inspect: () => void; chooseTarget: () => void }): JSX.Element {
  const ed = props.ed;
  let list: HTMLUListElement | undefined;
  const [text, setText] = createSignal("");
  const [from, setFrom] = createSignal(0);
  const lines = createMemo(() => {
    if (!text().trim()) return ed.lines();
    const found = new Set(search(ed.graph(), ed.kinds, text()).map((n) => n.id));
    return ed.lines().filter((l) => found.has(l.node.id));
  });
  const at = () => lines().findIndex((l) => l.node.id === ed.single());
  // Of a large flow, the part around the selected node.
  createEffect(() => {
    const i = at();
    if (i >= 0 && (i < from() || i >= from() + most)) setFrom(Math.max(0, i - most / 2));
  });
  const shown = createMemo(() => lines().slice(from(), from() + most));
  // By id: a row stays when the drawing changes.
  const byId = createMemo(() => new Map(shown().map((l) => [l.node.id, l])));
  const ids = createMemo<string[]>(() => [...byId().keys()], [], { equals: (a, b) => a.length === b.length && a.every((id, i) => id === b[i]) });
  const go = (i: number) => {
    const line = lines()[Math.max(0, Math.min(lines().length - 1, i))];
    if (!line) return;
    ed.select([line.node.id]);
    ed.reveal(line.node.id);
    queueMicrotask(() => list?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }));
  };
  const keys = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act: Record<string, () => void> = {
      ArrowDown: () => go(at() + 1), ArrowUp: () => go(at() < 0 ? 0 : at() - 1), Home: () => go(0), End: () => go(lines().length - 1), PageDown: () => go(at() + 10), PageUp: () => go(at() - 10),
      Enter: props.inspect, Delete: () => ed.remove(), Backspace: () => ed.remove(), c: props.chooseTarget,
    };
    const run = act[e.key];
    if (!run) return;
    e.preventDefault();
    e.stopPropagation();
    run();
  };
  return (
    <div class="outline">
      <input type="search" data-filter placeholder="Search nodes" aria-label="Search nodes" autocomplete="off" spellcheck={false} onInput={(e) => { setText(e.currentTarget.value); setFrom(0); }}
        onKeyDown={(e) => { if (e.key === "Enter" || e.key === "ArrowDown") { e.preventDefault(); e.stopPropagation(); go(0); list?.focus(); } }} />
      <ul ref={(el) => (list = el)} role="listbox" tabindex="0" aria-label="Nodes in the order of the flow" aria-multiselectable="true" aria-activedescendant={ed.single() ? `line-${ed.single()}` : undefined} onKeyDown={keys}
        onFocus={() => at() < 0 && ed.nodes().size === 0 && go(0)}>
        <For each={ids()} fallback={<li class="hint" role="option" aria-selected="false" aria-disabled="true">{text().trim() ? "No node is called so." : "No nodes yet. Add one from “Add”."}</li>}>
          {(id) => <Row ed={ed} line={createMemo<Line>((before) => byId().get(id) ?? before!)} />}
        </For>
      </ul>
    </div>
  );
}

/** Row is a node in the outline. */
function Row(props: { ed: Editor; line: () => Line }): JSX.Element {
  const ed = props.ed;
  const node = createMemo(() => props.line().node);
  const id = node().id;
  const spec = () => ed.kinds.of(node().type);
  const problem = createMemo(() => ed.found().get(id));
  const lost = () => !props.line().reached;
  return (
    <li id={`line-${id}`} role="option" aria-selected={ed.nodes().has(id)} class={spec()?.category ?? "unknown"} classList={{ lost: lost(), [problem() ?? "fine"]: true }}
      style={{ "padding-left": `${10 + Math.min(6, props.line().depth) * 14}px` }} onClick={(e) => { e.ctrlKey || e.metaKey || e.shiftKey ? ed.toggle(id) : ed.select([id]); ed.reveal(id); }}>
      <i aria-hidden="true" />
      <span class="cut">{named(node())}<Show when={props.line().by}><small> {props.line().by}</small></Show></span>
      <span class="hide">{`, ${spec()?.label ?? node().type}${lost() ? ", nothing leads to it" : ""}${problem() ? `, has ${problem() === "error" ? "an error" : "a warning"}` : ""}`}</span>
      <Show when={ed.marks().get(id)}>{(m) => <small class="mark-text">{m().text}</small>}</Show>
    </li>
  );
}
