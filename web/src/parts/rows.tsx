import { For, createMemo, createSignal, onCleanup, onMount, type JSX } from "solid-js";

/**
 * Rows is a list of rows of one height, of which only those in sight are in the page. It scrolls with the page.
 */
export function Rows<T>(props: {
  label: string;
  class: string;
  items: T[];
  height: number;
  head: JSX.Element;
  /** Called when the end comes into sight. */
  end?: () => void;
  children: (item: T) => JSX.Element;
}): JSX.Element {
  let body: HTMLDivElement | undefined;
  const [sight, setSight] = createSignal<[number, number]>([0, 40]);
  const look = () => {
    if (!body) return;
    const top = -body.getBoundingClientRect().top;
    const from = Math.max(0, Math.floor(top / props.height) - 8);
    const to = Math.ceil((top + innerHeight) / props.height) + 8;
    const [a, b] = sight();
    if (from !== a || to !== b) setSight([from, to]);
    if (to >= props.items.length) props.end?.();
  };
  onMount(() => {
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look, { passive: true });
    onCleanup(() => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    });
  });
  const shown = createMemo(() => props.items.slice(sight()[0], sight()[1]));
  return (
    <div class={`rows ${props.class}`} role="table" aria-label={props.label} aria-rowcount={props.items.length + 1}>
      <div class="row headrow" role="row" aria-rowindex={1}>{cells(props.head, "columnheader")}</div>
      <div class="rowbody" role="rowgroup" ref={(el) => (body = el)} style={{ height: `${props.items.length * props.height}px` }}>
        <For each={shown()}>
          {(item, i) => (
            <div class="row" role="row" data-row aria-rowindex={sight()[0] + i() + 2} style={{ transform: `translateY(${(sight()[0] + i()) * props.height}px)` }}>
              {cells(props.children(item), "cell")}
            </div>
          )}
        </For>
      </div>
    </div>
  );
}

// The elements of a row are its cells.
function cells(row: JSX.Element, role: string): JSX.Element {
  if (Array.isArray(row)) for (const cell of row) if (cell instanceof HTMLElement) cell.setAttribute("role", role);
  return row;
}
