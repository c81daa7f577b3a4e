// The editor of expressions. It is loaded by itself, when the first expression is shown.
import { autocompletion, startCompletion, type Completion } from "@codemirror/autocomplete";
import { Compartment, EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, hoverTooltip, keymap, placeholder, showTooltip, type DecorationSet, type Tooltip } from "@codemirror/view";
import type { Options } from "../../core/flow/complete";

export interface Wrong {
  from: number;
  to: number;
  message: string;
}

export interface Code {
  /** set shows another text, when something else has changed it. */
  set(text: string): void;
  mark(wrong: Wrong[]): void;
  /** about is for screen readers: the help, and the problem. */
  about(text: string, invalid: boolean): void;
  text(): string;
  focus(): void;
  destroy(): void;
}

const marked = StateEffect.define<Wrong[]>();
const underline = Decoration.mark({ class: "wrong" });

const wrongs = StateField.define<{ all: Wrong[]; shown: DecorationSet }>({
  create: () => ({ all: [], shown: Decoration.none }),
  update(v, tr) {
    for (const e of tr.effects) {
      if (!e.is(marked)) continue;
      const end = tr.state.doc.length;
      // What is missing at the end is shown at the last character.
      const all = e.value.map((w) => ({ ...w, from: Math.max(0, Math.min(w.from, w.to > w.from ? end : end - 1)), to: Math.min(end, Math.max(w.to, w.from + 1)) }));
      return { all, shown: Decoration.set(all.filter((w) => w.to > w.from).map((w) => underline.range(w.from, w.to)), true) };
    }
    if (!tr.docChanged) return v;
    const all = v.all.map((w) => ({ ...w, from: tr.changes.mapPos(w.from), to: tr.changes.mapPos(w.to) }));
    return { all, shown: v.shown.map(tr.changes) };
  },
  provide: (f) => [EditorView.decorations.from(f, (v) => v.shown), showTooltip.compute([f, "selection"], (s) => tip(s.field(f).all, s.selection.main.head))],
});

function tip(all: Wrong[], at: number): Tooltip | null {
  const w = all.find((x) => x.from <= at && at <= x.to);
  if (!w) return null;
  return {
    pos: w.from, end: w.to, above: true,
    create: () => {
      const dom = document.createElement("div");
      dom.className = "cm-wrong";
      dom.textContent = w.message;
      return { dom };
    },
  };
}

const theme = EditorView.theme({
  "&": { font: "13px/1.5 var(--mono)", color: "var(--ink)", background: "var(--page)", border: "1px solid var(--strong-line)", borderRadius: "6px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  "&.invalid": { borderColor: "var(--bad)" },
  ".cm-scroller": { font: "inherit", overflow: "auto", maxHeight: "16em" },
  ".cm-content": { padding: "7px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 10px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--accent-wash)" },
  ".cm-placeholder": { color: "var(--soft)" },
  ".wrong": { textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-tooltip": { background: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px", font: "13px/1.4 var(--sans, system-ui)", maxWidth: "min(420px, 90vw)", zIndex: "30" },
  ".cm-wrong": { padding: "4px 8px", borderLeft: "3px solid var(--bad)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14em" },
  ".cm-tooltip-autocomplete ul li": { padding: "3px 8px", display: "flex", gap: "12px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--page)" },
  ".cm-completionDetail": { marginLeft: "auto", fontStyle: "normal", color: "var(--soft)" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionInfo": { padding: "6px 8px", maxWidth: "260px" },
});

/** createCode puts an editor below a shadow root: its styles go there, which the policy of the page allows. */
export function createCode(o: {
  parent: ShadowRoot;
  text: string;
  label: string;
  required: boolean;
  readOnly: boolean;
  lines: boolean;
  placeholder: string;
  complete(text: string, at: number, asked: boolean): Options | null;
  changed(text: string): void;
  left(): void;
}): Code {
  const description = new Compartment();
  const hint = document.createElement("p");
  hint.id = "about";
  hint.hidden = true;
  o.parent.append(hint);
  let silent = false;
  const attributes = (invalid: boolean): Record<string, string> => ({
    "aria-label": o.label, "aria-describedby": "about", "aria-multiline": String(o.lines), spellcheck: "false", autocorrect: "off", autocapitalize: "off",
    ...(o.required ? { "aria-required": "true" } : {}), ...(o.readOnly ? { "aria-readonly": "true" } : {}), ...(invalid ? { "aria-invalid": "true" } : {}),
  });
  const described = (invalid: boolean) => [EditorView.contentAttributes.of(attributes(invalid)), EditorView.editorAttributes.of({ class: invalid ? "invalid" : "" })];
  const view = new EditorView({
    root: o.parent,
    parent: o.parent,
    state: EditorState.create({
      doc: o.text,
      extensions: [
        description.of(described(false)), theme, wrongs, drawSelection(), EditorView.lineWrapping, placeholder(o.placeholder), EditorState.readOnly.of(o.readOnly),
        // Without lines, Enter writes nothing: what is pasted becomes one line.
        o.lines ? [] : EditorState.transactionFilter.of((tr) => (tr.newDoc.lines > 1 ? [] : tr)),
        o.lines ? [] : EditorView.clipboardInputFilter.of((text) => text.replace(/\s*\n\s*/g, " ")),
        autocompletion({
          icons: false, maxRenderedOptions: 60, interactionDelay: 0,
          override: [(c) => {
            const found = o.complete(c.state.doc.toString(), c.pos, c.explicit);
            if (!found || found.options.length === 0) return null;
            const options = found.options.map((x, i): Completion => ({ label: x.label, detail: x.detail, info: x.info || undefined, type: x.kind, boost: -i / 100, apply: x.write ?? x.label }) as Completion);
            return { from: found.from, options, validFor: /^\w*$/ };
          }],
        }),
        keymap.of([{ key: "Ctrl-Space", run: startCompletion }]),
        hoverTooltip((v, at) => tip(v.state.field(wrongs).all, at), { hoverTime: 200 }),
        EditorView.updateListener.of((u) => {
          if (u.docChanged && !silent) o.changed(u.state.doc.toString());
          if (u.focusChanged && !u.view.hasFocus) o.left();
        }),
      ],
    }),
  });
  return {
    set(text) {
      if (text === view.state.doc.toString()) return;
      silent = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      silent = false;
    },
    mark: (all) => view.dispatch({ effects: marked.of(all) }),
    about(text, invalid) {
      hint.textContent = text;
      view.dispatch({ effects: description.reconfigure(described(invalid)) });
    },
    text: () => view.state.doc.toString(),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
