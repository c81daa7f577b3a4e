// A field with an expression or a template: errors are marked where they are, names and functions are completed.
import { Show, createContext, createEffect, createSignal, on, onCleanup, onMount, useContext, type JSX } from "solid-js";
import { bound, complete, unknown } from "../../core/flow/complete";
import { Live } from "../../core/flow/live";
import type { ExpressionCheck } from "../../core/flow/types";
import type { Code, Wrong } from "./code";
import type { Editor } from "./editor";

type Check = (text: string, template: boolean, signal: AbortSignal) => Promise<ExpressionCheck>;

/** Checks has the call that checks an expression; without it, nothing is checked as one types. */
export const Checks = createContext<Check>();

const soon = 150; // milliseconds

let loaded: Promise<typeof import("./code")> | undefined;
/** load fetches the editor: a page that will need it begins early. */
export const load = () => (loaded ??= import("./code"));

/** completing says whether a list of completions is open in a field: Escape closes that first. */
export const completing = (host: Element): boolean => !!host.shadowRoot?.querySelector(".cm-tooltip-autocomplete");

export function ExpressionInput(props: {
  ed: Editor;
  id: string;
  label: string;
  required?: boolean | undefined;
  template: boolean;
  value: string;
  placeholder: string;
  help: string;
  /** The words of the check of the whole drawing; empty: none. */
  problem: string;
  /** Texts that are no expression and that are allowed, such as else. */
  plain?: (text: string) => boolean;
  set: (text: string) => void;
  seal: () => void;
}): JSX.Element {
  const ed = props.ed;
  const check = useContext(Checks);
  let host: HTMLDivElement | undefined;
  let before: HTMLTextAreaElement | undefined;
  const [code, setCode] = createSignal<Code>();
  const [wrong, setWrong] = createSignal<Wrong[]>([]);
  // A text that is one place alone is the expression in it.
  const template = (text: string) => props.template || /^\s*\{\{.*\}\}\s*$/s.test(text);
  const live = new Live<string, ExpressionCheck>(
    (text, signal) => check!(text, template(text), signal),
    (a) => setWrong([...a.problems, ...unknown(a.names, bound(ed.graph(), ed.kinds))]),
    () => setWrong([]),
    soon,
  );
  const look = (text: string) => {
    if (!check || ed.readOnly) return;
    if (text.trim() === "" || props.plain?.(text)) {
      live.forget();
      setWrong([]);
    } else live.changed(text);
  };
  const typed = (text: string) => {
    props.set(text);
    look(text);
  };
  let gone = false;
  onMount(() => {
    look(props.value);
    void load().then(({ createCode }) => {
      if (gone || !host) return;
      const had = document.activeElement === before;
      setCode(createCode({
        parent: host.attachShadow({ mode: "open" }), text: props.value, label: `${props.label}${props.required ? " required" : ""}`, required: !!props.required, readOnly: ed.readOnly, lines: props.template,
        placeholder: props.placeholder, complete: (text, at, asked) => complete(text, at, template(text), bound(ed.graph(), ed.kinds), ed.kinds.table.functions ?? [], asked),
        changed: typed, left: props.seal,
      }));
      if (had) code()!.focus();
    });
  });
  onCleanup(() => {
    gone = true;
    live.stop();
    code()?.destroy();
  });
  createEffect(() => code()?.set(props.value));
  createEffect(on(() => props.value, (text) => text !== code()?.text() && look(text), { defer: true }));
  createEffect(() => code()?.mark(wrong()));
  const words = () => wrong()[0]?.message ?? props.problem;
  createEffect(() => code()?.about([words(), props.help].filter(Boolean).join(" "), words() !== ""));
  return (
    <>
      <span class="label" id={`${props.id}-label`} onClick={() => (code() ?? before)?.focus()}>{props.label}<Show when={props.required}><span class="soft"> required</span></Show></span>
      <div class="code-field" id={props.id} data-typing ref={(el) => (host = el)} />
      <Show when={!code()}>
        <textarea ref={(el) => (before = el)} rows={props.template ? 2 : 1} aria-label={`${props.label}${props.required ? " required" : ""}`} readonly={ed.readOnly} value={props.value} spellcheck={false} onInput={(e) => typed(e.currentTarget.value)} onBlur={() => props.seal()} />
      </Show>
      <Show when={words()}><p class="problem">{words()}</p></Show>
      <p class="hint" aria-hidden="true">{props.help}</p>
    </>
  );
}
