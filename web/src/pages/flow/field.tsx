import { For, Match, Show, Switch, createEffect, createMemo, createSignal, on, type JSX } from "solid-js";
import { json, read, write } from "../../core/flow/fields";
import type { Field } from "../../core/flow/types";
import type { Editor } from "./editor";
import { ExpressionInput } from "./expression";

/** What a field that takes JSON looks like, by its name. */
const examples: Record<string, string> = {
  args: '{"name": "train", "command_config": {"argv": ["sh", "-c", "python train.py"], "cwd": "/tmp"}}', retry: '{"max": 3, "backoff": "10s"}', quorum: '{"needed": 2, "of": 3}',
  context: '{"score": "{{score}}"}', schema: '{"type": "object"}', on_failure: "[]",
};

const hints: Partial<Record<Field["type"], string>> = {
  list: "One on each line.", map: "name = value, one on each line.", bindings: "name = expression, one on each line.", any: "JSON; texts may have {{places}}.",
  expression: "An expression, such as input.score > 0.7.", duration: "A time, such as 90s, 5m or 7d.",
};

const short = new Set(["llm", "url", "cpu", "gpu", "mb"]);

const spoken = (name: string) => name.split("_").map((w, i) => (short.has(w) ? w.toUpperCase() : i === 0 ? w[0]!.toUpperCase() + w.slice(1) : w)).join(" ");

/** FieldInput edits one field of the config of a node. What cannot be read yet stays typed, and is not in the drawing. */
export function FieldInput(props: { field: Field; value: unknown; problems: { message: string; severity: string }[]; ed: Editor; set: (value: unknown) => void; seal: () => void }): JSX.Element {
  const f = props.field;
  const id = `field-${f.name}`;
  const asJson = createMemo(() => json(f.type, props.value));
  const [text, setText] = createSignal(write(f.type, props.value));
  const [wrong, setWrong] = createSignal("");
  // The drawing changed under the field: undo, or another editor of it. What was typed here stays as it was typed.
  createEffect(on(() => props.value, (value) => {
    const r = read(f, text(), asJson());
    if ("value" in r && JSON.stringify(r.value) === JSON.stringify(value ?? undefined)) return;
    if ("problem" in r && document.activeElement?.id === id) return;
    setText(write(f.type, value));
    setWrong("");
  }, { defer: true }));
  const typed = (t: string) => {
    setText(t);
    const r = read(f, t, asJson());
    setWrong("problem" in r ? r.problem : "");
    if ("value" in r) props.set(r.value);
  };
  const long = () => asJson() || ["any", "list", "map", "bindings"].includes(f.type) || f.name === "goal" || text().length > 60;
  const code = () => (f.type === "expression" || f.type === "template") && !asJson();
  const help = () => `${f.help}. ${asJson() && f.type !== "any" ? "Shown as JSON." : (hints[f.type] ?? "")}`;
  const rows = () => Math.min(14, Math.max(f.type === "any" ? 3 : 2, text().split("\n").length));
  const described = () => `${id}-help${wrong() || props.problems.length > 0 ? ` ${id}-wrong` : ""}`;
  const invalid = () => (wrong() || props.problems.some((p) => p.severity === "error") ? "true" : undefined);
  return (
    <div class="field">
      <Switch>
        <Match when={f.type === "bool" && !asJson()}>
          <label class="check"><input id={id} type="checkbox" checked={(props.value ?? f.default) === true} disabled={props.ed.readOnly} aria-describedby={described()} onChange={(e) => { props.set(e.currentTarget.checked === (f.default ?? false) ? undefined : e.currentTarget.checked); props.seal(); }} /> {spoken(f.name)}</label>
        </Match>
        <Match when={f.type === "choice" && !asJson()}>
          <label for={id}>{spoken(f.name)}</label>
          <select id={id} disabled={props.ed.readOnly} aria-describedby={described()} aria-invalid={invalid()} onChange={(e) => { props.set(e.currentTarget.value || undefined); props.seal(); }}>
            <Show when={f.default === undefined && !f.required}><option value="" selected={!props.value}>not set</option></Show>
            <For each={f.choices}>{(c) => <option value={c} selected={c === (props.value ?? f.default)}>{c}</option>}</For>
          </select>
        </Match>
        <Match when={code()}>
          <ExpressionInput ed={props.ed} id={id} label={spoken(f.name)} required={f.required} template={f.type === "template"} value={text()} placeholder={f.default === undefined ? "" : String(f.default)}
            help={help()} problem={props.problems.map((p) => p.message).join(" ")} set={typed} seal={() => props.seal()} />
        </Match>
        <Match when={true}>
          <label for={id}>{spoken(f.name)}<Show when={f.required}><span class="soft"> required</span></Show></label>
          <Show when={long()} fallback={
            <input id={id} data-unread={wrong() ? "" : undefined} value={text()} readonly={props.ed.readOnly} autocomplete="off" spellcheck={false} inputmode={f.type === "int" ? "numeric" : undefined}
              placeholder={f.default === undefined ? "" : String(f.default)} aria-describedby={described()} aria-invalid={invalid()} onInput={(e) => typed(e.currentTarget.value)} onBlur={() => props.seal()} />
          }>
            <textarea id={id} data-unread={wrong() ? "" : undefined} rows={rows()} readonly={props.ed.readOnly} spellcheck={false} value={text()} placeholder={examples[f.name] ?? ""} aria-describedby={described()} aria-invalid={invalid()} onInput={(e) => typed(e.currentTarget.value)} onBlur={() => props.seal()} />
          </Show>
        </Match>
      </Switch>
      <Show when={!code() && (wrong() || props.problems.length > 0)}>
        <p id={`${id}-wrong`} class="problem">{wrong() || props.problems.map((p) => p.message).join(" ")}</p>
      </Show>
      <Show when={!code()}><p id={`${id}-help`} class="hint">{help()}</p></Show>
    </div>
  );
}
