import { For, Show, createMemo, createSignal, type JSX } from "solid-js";
import { unused } from "../../core/flow/graph";
import { named, otherwise } from "../../core/flow/rules";
import type { EdgeType, Field, FlowEdge, FlowNode, Spec } from "../../core/flow/types";
import type { Editor } from "./editor";
import { ExpressionInput } from "./expression";
import { FieldInput } from "./field";

/** Inspector shows and edits what is selected: a node, an edge, or the flow itself. */
export function Inspector(props: { ed: Editor; chooseTarget: () => void; children?: JSX.Element }): JSX.Element {
  const ed = props.ed;
  // A form is made when the canvas is let go: a drag begins without it.
  const settled = <T,>(of: () => T) => createMemo<T>((before) => (ed.held() && before !== undefined ? before : of()));
  const single = settled(ed.single);
  const singleEdge = settled(ed.singleEdge);
  const count = settled(() => ed.nodes().size + ed.edges().size);
  const node = createMemo(() => (single() ? ed.byId().get(single()!) : undefined));
  const edge = createMemo(() => (singleEdge() ? ed.edgeById().get(singleEdge()!) : undefined));
  return (
    <aside class="inspector" aria-label="Inspector">
      {props.children}
      <Show when={single()} keyed>{(id) => <Show when={node()}><NodeForm ed={ed} id={id} node={node()!} chooseTarget={props.chooseTarget} /></Show>}</Show>
      <Show when={singleEdge()} keyed>{(id) => <Show when={edge()}><EdgeForm ed={ed} id={id} edge={edge()!} /></Show>}</Show>
      <Show when={!single() && !singleEdge()}>
        <Show when={count() > 1} fallback={<FlowForm ed={ed} />}>
          <h2>{count()} selected</h2>
          <p class="hint">{ed.readOnly ? "Select one to see it." : "Drag them, or move them with the arrow keys."}</p>
          <Show when={!ed.readOnly}><div class="buttons"><button type="button" onClick={() => ed.remove()}>Delete</button></div></Show>
        </Show>
      </Show>
    </aside>
  );
}

const none: Spec = { kind: "", category: "unknown", label: "Unknown kind", help: "This version of Mind does not know it", runs: false, inputs: [], outputs: [], fields: [] };

function NodeForm(props: { ed: Editor; id: string; node: FlowNode; chooseTarget: () => void }): JSX.Element {
  const ed = props.ed;
  const spec = createMemo(() => ed.kinds.of(props.node.type) ?? none);
  const place = () => ed.graph().nodes.findIndex((n) => n.id === props.id);
  const problems = createMemo(() => ed.problems().filter((d) => d.node_id === props.id));
  const of = (field: string) => problems().filter((d) => d.path?.startsWith(`nodes[${place()}].config.${field}`));
  const others = createMemo(() => problems().filter((d) => !spec().fields.some((f) => of(f.name).includes(d))));
  const first = () => spec().fields.filter((f) => !later.has(f.name));
  const common = () => spec().fields.filter((f) => later.has(f.name));
  const input = (f: Field) => (
    <FieldInput field={f} value={props.node.config?.[f.name]} problems={of(f.name)} ed={ed} set={(v) => ed.configure(props.id, f.name, v)} seal={ed.seal} />
  );
  return (
    <form class={`form-of-node ${spec().category}`} onSubmit={(e) => e.preventDefault()}>
      <header><h2>{spec().label}</h2><code>{props.id}</code></header>
      <p class="hint">{spec().help}.</p>
      <Show when={!spec().runs}><p class="notice">This kind does not run yet: the flow can be drawn and saved with it, and not deployed.</p></Show>
      <For each={others()}>{(d) => <p class={d.severity === "error" ? "problem" : "warning"}>{d.message}</p>}</For>
      <div class="field">
        <label for="field-label">Label</label>
        <input id="field-label" value={props.node.label} readonly={ed.readOnly} autocomplete="off" onInput={(e) => ed.rename(props.id, e.currentTarget.value)} onBlur={ed.seal} />
      </div>
      <For each={first()}>{input}</For>
      <Show when={spec().own_outputs && !ed.readOnly}><Outputs ed={ed} node={props.node} /></Show>
      <Show when={common().length > 0}>
        <Folded title="Result, time and failures"><For each={common()}>{input}</For></Folded>
      </Show>
      <Show when={!ed.readOnly}>
        <div class="buttons">
          <button type="button" onClick={() => props.chooseTarget()} aria-keyshortcuts="c">Connect…</button>
          <button type="button" onClick={() => ed.remove()} aria-keyshortcuts="Delete">Delete</button>
        </div>
      </Show>
    </form>
  );
}

/** Folded makes what it has when it is opened for the first time. */
function Folded(props: { title: string; children: JSX.Element }): JSX.Element {
  const [opened, setOpened] = createSignal(false);
  return (
    <details onToggle={(e) => e.currentTarget.open && setOpened(true)}>
      <summary>{props.title}</summary>
      <Show when={opened()}>{props.children}</Show>
    </details>
  );
}

const later = new Set(["result_binding", "timeout", "retry", "on_failure", "breakpoint"]);

/** Outputs are those of a node that may have more than its kind. */
function Outputs(props: { ed: Editor; node: FlowNode }): JSX.Element {
  const ed = props.ed;
  const ports = () => ed.kinds.outputs(props.node);
  return (
    <fieldset>
      <legend>Outputs</legend>
      <For each={ports().map((p) => p.id)}>
        {(id, i) => (
          <div class="output">
            <input aria-label={`Name of output ${i() + 1}`} value={ports()[i()]?.label ?? id} autocomplete="off" onBlur={ed.seal}
              onInput={(e) => ed.setOutputs(props.node.id, ports().map((p) => (p.id === id ? { ...p, label: e.currentTarget.value } : p)), `output ${props.node.id} ${id}`)} />
            <Show when={ports().length > 1}><button type="button" class="quiet" aria-label={`Remove output ${ports()[i()]?.label || id}`} onClick={() => ed.setOutputs(props.node.id, ports().filter((p) => p.id !== id))}>Remove</button></Show>
          </div>
        )}
      </For>
      <button type="button" class="quiet" onClick={() => { const id = unused("out_1", (x) => ports().some((p) => p.id === x), "_"); ed.setOutputs(props.node.id, [...ports(), { id, label: id.replace("out_", ""), type: "object" }]); }}>Add an output</button>
    </fieldset>
  );
}

function EdgeForm(props: { ed: Editor; id: string; edge: FlowEdge }): JSX.Element {
  const ed = props.ed;
  const name = (id: string) => { const n = ed.byId().get(id); return n ? named(n) : id; };
  const problems = () => ed.problems().filter((d) => d.edge_id === props.id);
  const matches = () => ed.byId().get(props.edge.source.node)?.config?.["style"] === "match";
  const types: [EdgeType, string][] = [["sequential", "then"], ["conditional", "if the condition is true"], ["data", "gives its result, without an order"]];
  return (
    <form class="form-of-edge" onSubmit={(e) => e.preventDefault()}>
      <header><h2>Edge</h2><code>{props.id}</code></header>
      <p>From <button type="button" class="link" onClick={() => ed.select([props.edge.source.node])}>{name(props.edge.source.node)}</button> to <button type="button" class="link" onClick={() => ed.select([props.edge.target.node])}>{name(props.edge.target.node)}</button></p>
      <For each={problems()}>{(d) => <p class={d.severity === "error" ? "problem" : "warning"}>{d.message}</p>}</For>
      <div class="field">
        <label for="field-edge-type">Type</label>
        <select id="field-edge-type" disabled={ed.readOnly} onChange={(e) => { const type = e.currentTarget.value as EdgeType; ed.setEdge(props.id, { type, condition: type === "conditional" ? (props.edge.condition ?? "") : undefined }); }}>
          <For each={types}>{([t, text]) => <option value={t} selected={props.edge.type === t}>{t}: {text}</option>}</For>
        </select>
      </div>
      <Show when={props.edge.type === "conditional"}>
        <div class="field">
          <Show when={matches()} fallback={
            <ExpressionInput ed={ed} id="field-condition" label="Condition" template={false} value={props.edge.condition ?? ""} placeholder="score > 0.7" help="An expression; “else” is taken when no other condition is true." problem=""
              plain={(text) => text.trim() === otherwise} set={(condition) => ed.setEdge(props.id, { condition }, `condition ${props.id}`)} seal={ed.seal} />
          }>
            <label for="field-value">Condition</label>
            <input id="field-value" value={props.edge.condition ?? ""} readonly={ed.readOnly} autocomplete="off" spellcheck={false} aria-describedby="field-value-help"
              onInput={(e) => ed.setEdge(props.id, { condition: e.currentTarget.value }, `condition ${props.id}`)} onBlur={ed.seal} />
            <p id="field-value-help" class="hint">A value of the subject; “else” is taken when no other is equal to it.</p>
          </Show>
        </div>
      </Show>
      <Show when={!ed.readOnly}><div class="buttons"><button type="button" onClick={() => ed.remove()}>Delete</button></div></Show>
    </form>
  );
}

const heads: Field[] = [
  { name: "variables", type: "any", help: 'Names that the flow has from its start: [{"name": "limit", "type": "int", "default": 5}]' },
  { name: "config", type: "any", help: 'The models and plugins of the flow: {"core_identity": {"name": "…", "models": []}}' },
  { name: "tests", type: "any", help: "Tests that are run on it" },
];

/** FlowForm edits the flow itself. */
function FlowForm(props: { ed: Editor }): JSX.Element {
  const ed = props.ed;
  const rest = createMemo(() => ed.problems().filter((d) => !d.node_id && !d.edge_id));
  const description = () => String((ed.graph()["metadata"] as Record<string, unknown> | undefined)?.["description"] ?? "");
  const setDescription = (text: string) => ed.setHead({ metadata: { ...(ed.graph()["metadata"] as object | undefined), description: text || undefined } }, "change the description");
  return (
    <form class="form-of-flow" onSubmit={(e) => e.preventDefault()}>
      <header><h2>Flow</h2></header>
      <For each={rest()}>{(d) => <p class={d.severity === "error" ? "problem" : "warning"}>{d.message}</p>}</For>
      <div class="field"><label for="field-name">Name</label><input id="field-name" value={ed.graph().name} readonly={ed.readOnly} autocomplete="off" onInput={(e) => ed.setHead({ name: e.currentTarget.value }, "rename the flow")} onBlur={ed.seal} /></div>
      <div class="field"><label for="field-description">Description</label><textarea id="field-description" rows={2} value={description()} readonly={ed.readOnly} onInput={(e) => setDescription(e.currentTarget.value)} onBlur={ed.seal} /></div>
      <Folded title="Variables, models and tests">
        <For each={heads}>{(f) => <FieldInput field={f} value={empty(ed.graph()[f.name]) ? undefined : ed.graph()[f.name]} problems={[]} ed={ed} set={(v) => ed.setHead({ [f.name]: v ?? (f.name === "config" ? {} : []) }, `set the ${f.name}`)} seal={ed.seal} />}</For>
      </Folded>
    </form>
  );
}

const empty = (v: unknown) => v === undefined || v === null || (typeof v === "object" && Object.keys(v).length === 0);
