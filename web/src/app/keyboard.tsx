import { useNavigate } from "@solidjs/router";
import { For, Show, Suspense, createEffect, createSignal, lazy, onCleanup, onMount, type JSX } from "solid-js";
import { Keys, places, type Act } from "../core/keys";
import { keysOn, setKeysOn } from "./settings";

const Palette = lazy(async () => ({ default: (await import("../parts/palette")).Palette }));

const [palette, setPalette] = createSignal(false);
const [help, setHelp] = createSignal(false);

export const openPalette = () => setPalette(true);
export const openHelp = () => setHelp(true);

/** Keyboard listens for keys as long as somebody is signed in. */
export function Keyboard(): JSX.Element {
  const navigate = useNavigate();
  const keys = new Keys(keysOn());
  createEffect(() => keys.switchTo(keysOn()));
  const act = (a: Act) => {
    switch (a.does) {
      case "go": return navigate(a.to);
      case "palette": return setPalette(true);
      case "help": return setHelp(true);
      case "filter": return document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
      case "next": return step(1);
      case "previous": return step(-1);
    }
  };
  const pressed = (e: KeyboardEvent) => {
    const to = e.target as HTMLElement | null;
    const typing = !!to?.closest?.("input, textarea, select, [contenteditable], [data-typing]");
    if (document.querySelector("dialog[open]")) return;
    // Out of the filter to its rows; what was typed stays.
    if (to?.matches?.("[data-filter]") && (e.key === "Escape" || e.key === "Enter" || e.key === "ArrowDown")) {
      e.preventDefault();
      to.blur();
      if (e.key === "ArrowDown") step(1);
      return;
    }
    const a = keys.press({ key: e.key, ctrl: e.ctrlKey || e.metaKey, alt: e.altKey, typing }, e.timeStamp);
    if (!a) return;
    e.preventDefault();
    act(a);
  };
  onMount(() => {
    addEventListener("keydown", pressed);
    onCleanup(() => removeEventListener("keydown", pressed));
  });
  return (
    <>
      <Show when={palette()}><Suspense><Palette close={() => setPalette(false)} /></Suspense></Show>
      <Show when={help()}><Help close={() => setHelp(false)} /></Show>
    </>
  );
}

// step moves to the link of the next row of a list.
function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  const at = rows.findIndex((r) => r.contains(document.activeElement));
  const row = at < 0 ? rows.find((r) => r.getBoundingClientRect().top > 60) : rows[at + by];
  row?.querySelector<HTMLElement>("a")?.focus({ preventScroll: true });
  row?.scrollIntoView({ block: "nearest" });
}

function Help(props: { close: () => void }): JSX.Element {
  let dialog: HTMLDialogElement | undefined;
  onMount(() => dialog?.showModal());
  const all: [string[], string][] = [
    [["Ctrl", "K"], "find places, jobs and actions"], [["/"], "filter or search this page"], [["Esc"], "leave the filter"], [["j"], "next row"], [["k"], "previous row"], [["Enter"], "open the row"],
    ...Object.entries(places).map(([k, [, name]]): [string[], string] => [["g", k], name]), [["?"], "this list"],
  ];
  return (
    <dialog ref={(el) => (dialog = el)} onClose={() => props.close()} aria-labelledby="help-title">
      <form method="dialog">
        <h2 id="help-title">Keys</h2>
        <dl class="keys"><For each={all}>{([keys, does]) => <div><dt><For each={keys}>{(k) => <kbd>{k}</kbd>}</For></dt><dd>{does}</dd></div>}</For></dl>
        <label class="check"><input type="checkbox" checked={keysOn()} onChange={(e) => setKeysOn(e.currentTarget.checked)} /> Single keys act (Ctrl K always does)</label>
        <footer><button class="primary">Close</button></footer>
      </form>
    </dialog>
  );
}
