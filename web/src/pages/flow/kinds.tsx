import { For, createMemo, createSignal, type JSX } from "solid-js";
import type { Editor } from "./editor";

export const dragType = "application/x-mind-kind";

/** KindList is the palette: the kinds by category. A kind is dragged in, or added with Enter or a click. */
export function KindList(props: { ed: Editor; added: () => void }): JSX.Element {
  const ed = props.ed;
  const [text, setText] = createSignal("");
  const groups = createMemo(() => {
    const words = text().trim().toLowerCase();
    return ed.kinds.table.categories
      .map((c) => ({ ...c, kinds: ed.kinds.table.kinds.filter((k) => k.category === c.name && `${k.label} ${k.kind} ${k.help} ${c.label}`.toLowerCase().includes(words)) }))
      .filter((c) => c.kinds.length > 0);
  });
  const add = (kind: string) => {
    ed.add(kind);
    props.added();
  };
  return (
    <div class="kinds">
      <input type="search" placeholder="Find a kind" aria-label="Find a kind of node" autocomplete="off" spellcheck={false} onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => e.key === "Enter" && groups()[0] && add(groups()[0]!.kinds[0]!.kind)} />
      <For each={groups()} fallback={<p class="hint">No kind is called so.</p>}>
        {(c) => (
          <section class={c.name}>
            <h2>{c.label}</h2>
            <ul>
              <For each={c.kinds}>
                {(k) => (
                  <li>
                    <button type="button" class="quiet" draggable={true} title={k.help} onClick={() => add(k.kind)} onDragStart={(e) => e.dataTransfer?.setData(dragType, k.kind)}>
                      <i aria-hidden="true" />{k.label}{k.runs ? "" : <small>does not run yet</small>}
                    </button>
                  </li>
                )}
              </For>
            </ul>
          </section>
        )}
      </For>
    </div>
  );
}
