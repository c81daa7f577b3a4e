import { A, useParams, useSearchParams } from "@solidjs/router";
import { Show, createEffect, createSignal, on, onCleanup, onMount, type JSX } from "solid-js";
import { client, may, now, session, useQuery } from "../app/console";
import { keysOn } from "../app/settings";
import type { Problem } from "../core/api";
import { flowClient, flowsPath } from "../core/flow/client";
import { Drafts } from "../core/flow/drafts";
import { Kinds } from "../core/flow/graph";
import type { FlowDetail, KindTable } from "../core/flow/types";
import { ago, plural } from "../core/format";
import { Failure, Loading, title } from "../parts/parts";
import { Bottom } from "./flow/bottom";
import { Canvas } from "./flow/canvas";
import { ConflictDialog, ConnectDialog, DeployDialog, KeysDialog, RunDialog } from "./flow/dialogs";
import { createEditor, type Editor } from "./flow/editor";
import { Checks, completing, load } from "./flow/expression";
import { Inspector } from "./flow/inspector";
import { KindList } from "./flow/kinds";
import { Minimap } from "./flow/minimap";
import { Outline } from "./flow/outline";
import { createSaving, drawingOf, problemOf, type Saving } from "./flow/saving";

/** useLoaded asks once, and again for another address: a canvas is not changed under whoever draws. */
export function useLoaded<T>(load: () => Promise<T>): { data: () => T | undefined; problem: () => Problem | null } {
  const [data, setData] = createSignal<T>();
  const [problem, setProblem] = createSignal<Problem | null>(null);
  onMount(() => void load().then((d) => setData(() => d), (err: unknown) => setProblem(problemOf(err))));
  return { data, problem };
}

/** fields are where letters are typed. The field of an expression is an editor of its own. */
const fields = "input, textarea, select, [data-typing]";

/** FlowPage is the canvas of a flow. */
export function FlowPage(): JSX.Element {
  const params = useParams<{ id: string }>();
  const [search] = useSearchParams<{ version: string }>();
  return <Show when={`${params.id} ${search.version ?? ""}`} keyed>{(key) => <Loaded id={key.split(" ")[0]!} version={key.split(" ")[1]!} />}</Show>;
}

function Loaded(props: { id: string; version: string }): JSX.Element {
  const flows = flowClient(client);
  const flow = useLoaded(async () => {
    const f = await flows.get(props.id);
    if (!props.version || props.version === f.version) return f;
    const old = await flows.version(props.id, props.version);
    return { ...f, version: old.version, content: old.content ?? f.content, description: "", level: "view", name: old.content?.name ?? f.name };
  });
  const kinds = useQuery<KindTable>(() => `${flowsPath}/kinds`, Infinity, "kind");
  return (
    <Show when={flow.data() && kinds.data} fallback={
      <div class="plain">
        <h1 class="alone">Flow</h1>
        <Show when={flow.problem() ?? kinds.error} fallback={<Loading rows={4} />}>{(p) => <Failure problem={p()} what="The flow" />}</Show>
      </div>
    }>
      <Drawn flow={flow.data()!} old={props.version} kinds={new Kinds(JSON.parse(JSON.stringify(kinds.data)) as KindTable)} />
    </Show>
  );
}

function Drawn(props: { flow: FlowDetail; old: string; kinds: Kinds }): JSX.Element {
  const flow = props.flow;
  const readOnly = flow.level === "view" || !(may("scaicore:manage") || may("scaicore:admin"));
  const content = drawingOf(flow);
  const ed = createEditor(props.kinds, content, readOnly);
  const flows = flowClient(client);
  const saving = createSaving(ed, flows, { ...flow, content }, new Drafts(localStorage, `${session()?.tenant_id}/${session()?.user_id}`));
  const [left, setLeft] = createSignal<"add" | "outline">(content.nodes.length > 12 ? "outline" : "add");
  const [dialog, setDialog] = createSignal<"" | "deploy" | "connect" | "keys" | { core: string }>("");
  let page: HTMLDivElement | undefined;
  title(() => ed.graph().name || "Flow");

  const toCanvas = () => page?.querySelector<SVGSVGElement>("svg.canvas")?.focus({ preventScroll: true });
  const inspect = () => queueMicrotask(() => page?.querySelector<HTMLElement>(".inspector input, .inspector select, .inspector textarea")?.focus());
  const open = (what: "add" | "outline") => {
    setLeft(what);
    queueMicrotask(() => page?.querySelector<HTMLElement>(".left input")?.focus());
  };
  const connect = () => !readOnly && ed.single() && setDialog("connect");

  const keys = (e: KeyboardEvent) => {
    if (document.querySelector("dialog[open]")) return;
    const to = e.target as HTMLElement;
    const typing = to.matches(fields);
    const key = e.key.toLowerCase();
    const act = (run: () => unknown) => {
      e.preventDefault();
      e.stopPropagation();
      run();
    };
    if (e.ctrlKey || e.metaKey) {
      if (key === "s") return act(() => saving.save());
      // A field undoes by the same stack: what it has typed is there, unless it cannot be read yet.
      if ((key === "z" || key === "y") && to.matches("[data-unread]")) return;
      if (key === "z") return act(e.shiftKey ? ed.redo : ed.undo);
      if (key === "y") return act(ed.redo);
      if (key === "a" && !typing) return act(ed.selectAll);
      return;
    }
    if (e.key === "Escape" && typing && page?.contains(to) && !completing(to)) return act(toCanvas);
    if (typing || e.altKey || !keysOn()) return;
    if (e.key === "/") return act(() => open("outline"));
    if (e.key === "a" && !readOnly) return act(() => open("add"));
    if (e.key === "?" && page?.contains(to)) return act(() => setDialog("keys"));
  };
  const typing = () => document.activeElement?.matches(fields) || !!document.querySelector("dialog[open]") || !!String(getSelection() ?? "");
  const copied = (e: ClipboardEvent) => {
    const text = ed.copied();
    if (typing() || !text) return;
    e.preventDefault();
    e.clipboardData?.setData("text/plain", text);
    ed.say(`Copied ${plural(ed.nodes().size, "node")}`);
    if (e.type === "cut") ed.remove();
  };
  const pasted = (e: ClipboardEvent) => {
    if (typing()) return;
    if (ed.paste(e.clipboardData?.getData("text/plain") ?? "")) e.preventDefault();
  };
  onMount(() => {
    // Before the keys of the console, which take / and ? as well.
    addEventListener("keydown", keys, true);
    document.addEventListener("copy", copied);
    document.addEventListener("cut", copied);
    document.addEventListener("paste", pasted);
    onCleanup(() => {
      removeEventListener("keydown", keys, true);
      document.removeEventListener("copy", copied);
      document.removeEventListener("cut", copied);
      document.removeEventListener("paste", pasted);
    });
    toCanvas();
    void load();
  });

  return (
    <div class="flow" ref={(el) => (page = el)}>
      <header class="bar">
        <p class="trail"><A href="/flows">Flows</A></p>
        <h1 class="cut">{ed.graph().name || "Unnamed flow"}</h1>
        <Show when={readOnly}><span class="tag">read only</span></Show>
        <Show when={props.old}><A href={`/flows/${encodeURIComponent(flow.id)}`}>The newest version</A></Show>
        <div class="actions">
          <Show when={!readOnly}>
            <button type="button" class="quiet" disabled={ed.steps().undoes === null} title={ed.steps().undoes ? `Undo: ${ed.steps().undoes}` : "Nothing to undo"} onClick={ed.undo}>Undo</button>
            <button type="button" class="quiet" disabled={ed.steps().redoes === null} title={ed.steps().redoes ? `Do again: ${ed.steps().redoes}` : "Nothing to do again"} onClick={ed.redo}>Redo</button>
            <button type="button" class="quiet" disabled={ed.graph().nodes.length === 0} onClick={ed.layout}>Arrange</button>
          </Show>
          <button type="button" class="quiet" onClick={() => setDialog("keys")}>Keys</button>
          <Show when={!readOnly}>
            <button type="button" disabled={saving.busy() || !saving.dirty()} onClick={() => void saving.save()} aria-keyshortcuts="Control+S">{saving.busy() ? "Saving…" : saving.dirty() ? "Save" : "Saved"}</button>
            <button type="button" class="primary" onClick={() => setDialog("deploy")}>Deploy…</button>
          </Show>
        </div>
      </header>
      <Offers saving={saving} />
      <div class="desk">
        <nav class="left" aria-label="Nodes">
          <div class="chips" role="group" aria-label="Show">
            <Show when={!readOnly}><button type="button" class="chip" aria-pressed={left() === "add"} onClick={() => setLeft("add")}>Add</button></Show>
            <button type="button" class="chip" aria-pressed={left() === "outline" || readOnly} onClick={() => setLeft("outline")}>Outline</button>
          </div>
          <Show when={left() === "add" && !readOnly} fallback={<Outline ed={ed} inspect={inspect} chooseTarget={connect} />}><KindList ed={ed} added={toCanvas} /></Show>
        </nav>
        <Stage ed={ed} inspect={inspect} chooseTarget={connect} empty="Add the first node: choose “API” on the left. It is where the flow begins." />
        <Checks.Provider value={flows.expression}><Inspector ed={ed} chooseTarget={connect} /></Checks.Provider>
      </div>
      <Bottom ed={ed} flows={flows} id={flow.id} run={(core) => setDialog({ core })} jumped={toCanvas} />
      <StatusLine ed={ed} saving={saving} />
      <Show when={saving.conflict()}><ConflictDialog ed={ed} saving={saving} /></Show>
      <Show when={dialog() === "deploy"}><DeployDialog ed={ed} saving={saving} flows={flows} id={flow.id} close={() => setDialog((d) => (d === "deploy" ? "" : d))} run={(core) => setDialog({ core })} /></Show>
      <Show when={dialog() === "connect"}><ConnectDialog ed={ed} close={() => { setDialog(""); toCanvas(); }} /></Show>
      <Show when={dialog() === "keys"}><KeysDialog close={() => setDialog("")} /></Show>
      <Show when={core(dialog())}>{(c) => <RunDialog flow={flow.id} core={c()} close={() => setDialog("")} />}</Show>
    </div>
  );
}

const core = (d: "" | "deploy" | "connect" | "keys" | { core: string }) => (typeof d === "object" ? d.core : "");

/** Stage is the canvas with the map and the buttons that zoom. */
export function Stage(props: { ed: Editor; inspect: () => void; chooseTarget: () => void; empty?: string }): JSX.Element {
  const ed = props.ed;
  return (
    <div class="stage">
      <Canvas ed={ed} inspect={props.inspect} chooseTarget={props.chooseTarget} label={`Canvas, ${plural(ed.graph().nodes.length, "node")}`} />
      <p id="canvas-keys" class="hide">{ed.readOnly ? "Alt and arrows go to the next node." : "Arrows move what is selected, Alt and arrows go to the next node, Enter edits it, c connects it. The outline lists all nodes."}</p>
      <Show when={ed.graph().nodes.length === 0 && props.empty}><p class="start">{props.empty}</p></Show>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" class="quiet" aria-label="Zoom out" onClick={() => ed.zoom(0.8)}>−</button>
        <button type="button" class="quiet" title="See all" onClick={ed.fit}>{Math.round(ed.view().k * 100)} %</button>
        <button type="button" class="quiet" aria-label="Zoom in" onClick={() => ed.zoom(1.25)}>+</button>
      </div>
      <Minimap ed={ed} />
    </div>
  );
}

/** Offers are what this browser has kept, and what went wrong with saving. */
function Offers(props: { saving: Saving }): JSX.Element {
  const s = props.saving;
  return (
    <>
      <Show when={s.draft()}>
        {(d) => (
          <div class="notice offer" role="status">
            <p>This browser has changes from {ago(new Date(d().at).toISOString(), now())} that were not saved, made from version {d().based_on || "none"}{d().based_on === s.version() ? "" : `; the flow is at ${s.version()} now`}.</p>
            <div class="buttons"><button type="button" class="primary" onClick={() => s.restore()}>Restore them</button><button type="button" onClick={() => s.discard()}>Discard them</button></div>
          </div>
        )}
      </Show>
      <Show when={s.problem()}>{(p) => <div class="notice bad offer" role="alert"><p><b>Not saved.</b> {p().message}</p></div>}</Show>
    </>
  );
}

function StatusLine(props: { ed: Editor; saving: Saving }): JSX.Element {
  const { ed, saving } = props;
  const [shown, setShown] = createSignal("");
  createEffect(on(ed.said, (text) => setShown(text), { defer: true }));
  const counts = () => {
    const errors = ed.problems().filter((d) => d.severity === "error").length;
    const warnings = ed.problems().length - errors;
    return errors + warnings === 0 ? "no problems" : [errors && plural(errors, "error"), warnings && plural(warnings, "warning")].filter(Boolean).join(", ");
  };
  const checked = () => { const c = saving.checked(); return c === "waits" ? "checking…" : c === "done" ? counts() : `not checked: ${c.message}`; };
  return (
    <footer class="state-line">
      <span>{plural(ed.graph().nodes.length, "node")}, {plural(ed.graph().edges.length, "edge")}</span>
      <span class="checked" data-checked={typeof saving.checked() === "string" ? (saving.checked() as string) : "failed"}>{checked()}</span>
      <span>version {saving.version()}{saving.dirty() ? (saving.kept() ? ", changes are kept in this browser until you save" : ", changes cannot be kept in this browser: save them") : ", saved"}</span>
      <span class="said" role="status">{shown()}</span>
    </footer>
  );
}
