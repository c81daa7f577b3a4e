import { useNavigate } from "@solidjs/router";
import { For, Show, createMemo, createSignal, type JSX } from "solid-js";
import { client, queries } from "../../app/console";
import type { Problem } from "../../core/api";
import { corePath, flowPath, type Deployed, type FlowClient } from "../../core/flow/client";
import { named, targets } from "../../core/flow/rules";
import type { Diagnostic } from "../../core/flow/types";
import { plural } from "../../core/format";
import { line } from "../../core/shell";
import { Refusal } from "../../parts/dialog";
import { Command } from "../../parts/parts";
import type { Editor } from "./editor";
import { Modal } from "./modal";
import { problemOf, type Saving } from "./saving";

/** ConflictDialog offers what can be done when somebody else has saved the flow. */
export function ConflictDialog(props: { ed: Editor; saving: Saving }): JSX.Element {
  const navigate = useNavigate();
  const s = props.saving;
  const theirs = s.conflict()!;
  const [look, setLook] = createSignal(false);
  const [name, setName] = createSignal(`${props.ed.graph().name} (mine)`);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const d = createMemo(() => s.difference());
  const title = (id: string) => {
    const n = props.ed.byId().get(id) ?? theirs.content.nodes.find((x) => x.id === id);
    return n ? `${named(n)} (${id})` : id;
  };
  const asNew = async () => {
    try {
      const made = await s.asNew(name().trim());
      s.dismiss();
      navigate(`/flows/${encodeURIComponent(made.id)}`);
    } catch (err) {
      setProblem(problemOf(err));
    }
  };
  return (
    <Modal title="Somebody else saved this flow" close={() => s.dismiss()} footer={(close) => (
      <>
        <button type="button" onClick={close}>Keep drawing</button>
        <button type="button" onClick={() => s.theirs()}>Reload theirs</button>
        <button type="button" class="primary" disabled={!name().trim()} onClick={() => void asNew()}>Save mine as a new flow</button>
      </>
    )}>
      <p>It is at version {theirs.version} now, and yours was made from {s.version()}. Nothing is lost: yours is kept in this browser. After reloading theirs, Ctrl Z brings yours back.</p>
      <div class="field"><label for="new-name">Name of the new flow</label><input id="new-name" value={name()} autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} /></div>
      <button type="button" class="quiet" aria-expanded={look()} onClick={() => setLook(!look())}>Look at the difference</button>
      <Show when={look() && d()}>
        {(x) => (
          <dl class="facts">
            <div><dt>only yours</dt><dd>{x().added.map(title).join(", ") || "–"}</dd></div>
            <div><dt>only theirs</dt><dd>{x().removed.map(title).join(", ") || "–"}</dd></div>
            <div><dt>differ</dt><dd>{x().changed.map(title).join(", ") || "–"}</dd></div>
            <div><dt>edges</dt><dd>{x().edges.length === 0 ? "the same" : `${plural(x().edges.length, "edge")} of one side, or different`}</dd></div>
            <Show when={x().rest}><div><dt>the flow</dt><dd>its name, variables, config or tests differ</dd></div></Show>
          </dl>
        )}
      </Show>
      <Show when={problem()}>{(p) => <Refusal problem={p()} />}</Show>
    </Modal>
  );
}

/** Findings lists problems; choosing one goes to its node. */
export function Findings(props: { ed: Editor; all: Diagnostic[]; jumped?: () => void }): JSX.Element {
  const ed = props.ed;
  const sorted = createMemo(() => [...props.all].sort((a, b) => Number(a.severity === "warning") - Number(b.severity === "warning")));
  const where = (d: Diagnostic) => {
    const n = d.node_id ? ed.byId().get(d.node_id) : undefined;
    return n ? named(n) : d.edge_id ? "an edge" : "the flow";
  };
  return (
    <ul class="findings">
      <For each={sorted()}>
        {(d) => (
          <li class={d.severity}>
            <button type="button" class="link" onClick={() => { ed.jump(d); props.jumped?.(); }}><b>{where(d)}</b> <span>{d.message}</span></button>
          </li>
        )}
      </For>
    </ul>
  );
}

/** DeployDialog saves, compiles and starts the flow, and says what came of it. */
export function DeployDialog(props: { ed: Editor; saving: Saving; flows: FlowClient; id: string; close: () => void; run: (core: string) => void }): JSX.Element {
  const [busy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const [done, setDone] = createSignal<Deployed | null>(null);
  const [start, setStart] = createSignal(true);
  const errors = () => (problem()?.more["diagnostics"] as Diagnostic[] | undefined) ?? [];
  // Kinds that do not run yet are warnings while one draws; a flow with them is not deployed.
  const known = () => props.ed.problems().filter((d) => d.severity === "error" || d.code === "NOT_SUPPORTED");
  const deploy = async () => {
    setBusy(true);
    setProblem(null);
    try {
      if (!(await props.saving.save())) {
        if (props.saving.conflict()) props.close();
        else if (props.saving.problem()) setProblem(props.saving.problem());
        return;
      }
      setDone(await props.flows.deploy(props.id, start()));
      queries.refresh(flowPath(props.id));
    } catch (err) {
      setProblem(problemOf(err));
    } finally {
      setBusy(false);
    }
  };
  const said = (w: string | Diagnostic) => (typeof w === "string" ? w : w.message);
  return (
    <Modal title={done() ? "Deployed" : "Deploy the flow"} close={props.close} submit={() => !done() && !busy() && void deploy()} footer={(close) => (
      <>
        <button type="button" onClick={close}>{done() ? "Close" : "Leave it"}</button>
        <Show when={done()} fallback={<button class="primary" disabled={busy()}>{busy() ? "Working…" : props.saving.dirty() ? "Save and deploy" : "Deploy"}</button>}>
          {(d) => <button type="button" class="primary" onClick={() => { close(); props.run(d().core_id); }}>Run it…</button>}
        </Show>
      </>
    )}>
      <Show when={done()} fallback={
        <>
          <p>{props.saving.dirty() ? "Your changes are saved first. Then the" : `Version ${props.saving.version()} of the`} flow becomes a version of its Core. Runs that are under way keep the version that they have.</p>
          <label class="check"><input type="checkbox" checked={start()} onChange={(e) => setStart(e.currentTarget.checked)} /> Start the Core</label>
          <Show when={!problem() && known().length > 0}><p class="problem">{known().length === 1 ? "This keeps" : "These keep"} the flow from being deployed:</p><Findings ed={props.ed} all={known()} jumped={props.close} /></Show>
        </>
      }>
        {(d) => (
          <>
            <p>Version {props.saving.version()} is version {d().core_version} of the Core <b>{d().core_slug}</b>.</p>
            <For each={d().warnings ?? []}>{(w) => <p class="warning">{said(w)}</p>}</For>
          </>
        )}
      </Show>
      <Show when={problem()}>{(p) => <><Refusal problem={p()} /><Show when={errors().length > 0}><Findings ed={props.ed} all={errors()} jumped={props.close} /></Show></>}</Show>
      <Command line={line("mind", "flow", "deploy", props.id)} />
    </Modal>
  );
}

/** RunDialog starts an execution of the Core of a flow, and goes to it. */
export function RunDialog(props: { flow: string; core: string; close: () => void }): JSX.Element {
  const navigate = useNavigate();
  const [text, setText] = createSignal("{}");
  const [busy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const input = createMemo((): { value?: unknown; wrong?: string } => {
    try {
      return { value: text().trim() === "" ? {} : (JSON.parse(text()) as unknown) };
    } catch (err) {
      return { wrong: `This is no JSON: ${(err as Error).message}` };
    }
  });
  const run = async () => {
    if (input().wrong) return;
    setBusy(true);
    setProblem(null);
    try {
      const { data } = await client.write<{ execution_id: string }>("POST", corePath("cores", props.core, "invoke"), { input: input().value, wait_seconds: 0 }, { Prefer: "respond-async" });
      navigate(`/flows/${encodeURIComponent(props.flow)}/runs/${encodeURIComponent(data.execution_id)}`);
    } catch (err) {
      setProblem(problemOf(err));
      setBusy(false);
    }
  };
  return (
    <Modal title="Run the flow" close={props.close} submit={() => void run()} footer={(close) => (
      <>
        <button type="button" onClick={close}>Leave it</button>
        <button class="primary" disabled={busy() || !!input().wrong}>{busy() ? "Starting…" : "Run"}</button>
      </>
    )}>
      <label for="run-input">Input <span class="soft">JSON</span></label>
      <textarea id="run-input" rows={5} spellcheck={false} value={text()} aria-invalid={input().wrong ? "true" : undefined} onInput={(e) => setText(e.currentTarget.value)} />
      <Show when={input().wrong}>{(w) => <p class="problem">{w()}</p>}</Show>
      <Show when={problem()}>{(p) => <Refusal problem={p()} />}</Show>
      <Command line={line("mind", "core", "invoke", props.core, "--input", text().replace(/\s+/g, " "))} />
    </Modal>
  );
}

/** ConnectDialog draws an edge without a mouse: from an output of the selected node to one of the inputs that it may lead to. */
export function ConnectDialog(props: { ed: Editor; close: () => void }): JSX.Element {
  const ed = props.ed;
  const node = ed.byId().get(ed.single() ?? "");
  const ports = node ? ed.kinds.outputs(node) : [];
  const unused = ports.find((p) => !ed.graph().edges.some((e) => e.source.node === node?.id && e.source.port === p.id));
  const [port, setPort] = createSignal((unused ?? ports[0])?.id ?? "");
  const to = createMemo(() => (node ? targets(ed.graph(), ed.kinds, { node: node.id, port: port() }) : []));
  const [chosen, setChosen] = createSignal("");
  const target = () => to().find((t) => `${t.node.id} ${t.port}` === chosen()) ?? to()[0];
  return (
    <Modal title={node ? `Connect ${named(node)}` : "Connect"} close={props.close} submit={() => { const t = target(); if (t && node && ed.connect({ node: node.id, port: port() }, { node: t.node.id, port: t.port })) props.close(); }} footer={(close) => (
      <>
        <button type="button" onClick={close}>Leave it</button>
        <button class="primary" disabled={!target()}>Connect</button>
      </>
    )}>
      <Show when={node} fallback={<p>Select the node that the edge begins at first.</p>}>
        <Show when={ports.length > 1}>
          <div class="field"><label for="connect-port">Output</label><select id="connect-port" onChange={(e) => setPort(e.currentTarget.value)}><For each={ports}>{(p) => <option value={p.id} selected={p.id === port()}>{p.label || p.id}</option>}</For></select></div>
        </Show>
        <Show when={to().length > 0} fallback={<p>Nothing may follow this output now. Add a node, or put a decision or a parallel behind this one.</p>}>
          <div class="field">
            <label for="connect-to">To</label>
            <select id="connect-to" autofocus onChange={(e) => setChosen(e.currentTarget.value)} onKeyDown={(e) => { if (e.key === "Enter") { e.preventDefault(); e.currentTarget.form?.requestSubmit(); } }}>
              <For each={to()}>{(t) => <option value={`${t.node.id} ${t.port}`} selected={target() === t}>{named(t.node)}{ed.kinds.inputs(t.node).length > 1 ? `, ${t.port}` : ""} ({ed.kinds.of(t.node.type)?.label})</option>}</For>
            </select>
          </div>
        </Show>
      </Show>
    </Modal>
  );
}

const keys: [string, string][] = [
  ["arrows", "move what is selected; Shift: by one pixel; Alt: to the next node"], ["Enter", "edit it"], ["c", "connect it"], ["Delete", "delete it"], ["Ctrl Z, Ctrl Y", "undo, do again"],
  ["Ctrl C, X, V", "copy, cut, paste"], ["Ctrl A", "select all"], ["Ctrl S", "save"], ["/", "search nodes; then arrows"], ["a", "add a node"], ["+ − 0", "zoom; see all"], ["Esc", "out of a field, to the canvas"],
];

export function KeysDialog(props: { close: () => void }): JSX.Element {
  return (
    <Modal title="Keys of the canvas" close={props.close} footer={(close) => <button type="button" class="primary" onClick={close}>Close</button>}>
      <dl class="facts"><For each={keys}>{([k, does]) => <div><dt>{k}</dt><dd>{does}</dd></div>}</For></dl>
      <p class="hint">With a mouse: drag the canvas to move it, Ctrl and the wheel to zoom, Shift and drag to select many; drag from a dot to connect.</p>
    </Modal>
  );
}
