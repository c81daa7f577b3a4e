// What goes between a canvas and the cluster: saving with its conflicts, checking while one draws, and what this browser keeps.
import { createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { Problem } from "../../core/api";
import type { FlowClient } from "../../core/flow/client";
import { difference, same } from "../../core/flow/difference";
import type { Draft, Drafts } from "../../core/flow/drafts";
import { whole } from "../../core/flow/graph";
import { Live } from "../../core/flow/live";
import type { Diagnostic, FlowDetail, Graph } from "../../core/flow/types";
import type { Editor } from "./editor";

const keepAfter = 800; // milliseconds

export const problemOf = (err: unknown) => (err instanceof Problem ? err : new Problem(0, "UNKNOWN", String(err)));

/** drawingOf is the drawing of a flow with what the flow itself has: its name, version and description. */
export function drawingOf(f: FlowDetail): Graph {
  const g = whole({ ...f.content, id: f.id, name: f.name, version: f.version });
  return f.description ? { ...g, metadata: { ...(g["metadata"] as object | undefined), description: f.description } } : g;
}

export type Saving = ReturnType<typeof createSaving>;

export function createSaving(ed: Editor, client: FlowClient, start: FlowDetail, drafts: Drafts) {
  const [version, setVersion] = createSignal(start.version);
  const [saved, setSaved] = createSignal(ed.graph());
  const [busy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const [conflict, setConflict] = createSignal<FlowDetail | null>(null);
  const [checked, setChecked] = createSignal<"waits" | "done" | Problem>("waits");
  const [kept, setKept] = createSignal(true);
  const dirty = createMemo(() => ed.graph() !== saved());
  const found = ed.readOnly ? null : drafts.load(start.id);
  const [draft, setDraft] = createSignal<Draft | null>(found && !same(found.content, start.content) ? found : null);

  const live = new Live<Graph, { diagnostics: Diagnostic[] }>(
    (g, signal) => client.validate(g, signal),
    (a) => {
      ed.setProblems(a.diagnostics ?? []);
      setChecked("done");
    },
    (err) => setChecked(problemOf(err)),
  );
  createEffect(on(ed.graph, (g) => {
    setChecked("waits");
    live.changed(g);
  }, { defer: true }));
  void live.now(ed.graph());

  let timer: ReturnType<typeof setTimeout> | undefined;
  // A draft that was offered and not answered yet is not written over: it is somebody's work.
  const keep = () => {
    clearTimeout(timer);
    timer = undefined;
    if (ed.readOnly || draft()) return;
    if (dirty()) setKept(drafts.save(start.id, { based_on: version(), at: Date.now(), content: ed.graph() }));
    else drafts.drop(start.id);
  };
  createEffect(on([ed.graph, saved], () => {
    clearTimeout(timer);
    timer = setTimeout(keep, keepAfter);
  }, { defer: true }));
  const flush = () => timer !== undefined && keep();
  addEventListener("pagehide", flush);
  onCleanup(() => {
    flush();
    live.stop();
    removeEventListener("pagehide", flush);
  });

  const settle = (f: FlowDetail) => {
    setVersion(f.version);
    ed.adopt((g) => ({ ...g, id: f.id, version: f.version }));
    setSaved(ed.graph());
  };
  const body = (g: Graph) => ({ name: g.name, description: String((g["metadata"] as Record<string, unknown> | undefined)?.["description"] ?? ""), content: g });

  /** save says whether all is saved. */
  async function save(): Promise<boolean> {
    if (!dirty()) return true;
    if (busy()) return false;
    setBusy(true);
    setProblem(null);
    const sent = ed.graph();
    try {
      const f = await client.save(start.id, body(sent), version());
      setVersion(f.version);
      // What was drawn meanwhile is not saved.
      if (ed.graph() === sent) settle(f);
      ed.say(`Saved as version ${f.version}`);
      return ed.graph() === saved();
    } catch (err) {
      const p = problemOf(err);
      if (p.code !== "version_conflict") {
        setProblem(p);
        return false;
      }
      const theirs = await client.get(start.id).catch((e: unknown) => void setProblem(problemOf(e)));
      if (!theirs) return false;
      // The answer to an earlier try was lost: it is ours that is there.
      const content = drawingOf(theirs);
      if (same(content, sent)) {
        settle(theirs);
        return true;
      }
      setConflict({ ...theirs, content });
      return false;
    } finally {
      setBusy(false);
    }
  }

  return {
    version, dirty, busy, problem, conflict, checked, kept, draft, save, saved,
    dismiss: () => setConflict(null),
    /** theirs puts what is stored on the canvas. It can be undone: then saving puts ours over it, knowingly. */
    theirs() {
      const c = conflict();
      if (!c) return;
      ed.apply(c.content, "take the stored version");
      setConflict(null);
      settle(c);
    },
    async asNew(name: string): Promise<FlowDetail> {
      const g = ed.graph();
      const made = await client.create(name, body(g).description, { ...g, id: "", name });
      drafts.drop(start.id);
      ed.adopt(() => saved());
      return made;
    },
    difference: () => (conflict() ? difference(conflict()!.content, ed.graph()) : null),
    restore() {
      const d = draft();
      setDraft(null);
      if (!d) return;
      // Somebody may have saved since: then saving shows the conflict.
      if (d.based_on) setVersion(d.based_on);
      ed.apply(whole(d.content), "restore what was not saved");
    },
    discard() {
      setDraft(null);
      drafts.drop(start.id);
    },
  };
}
