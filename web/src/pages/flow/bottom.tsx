import { A } from "@solidjs/router";
import { For, Match, Show, Switch, createEffect, createSignal, on, onCleanup, type JSX } from "solid-js";
import { now, useQuery } from "../../app/console";
import { query, type Problem } from "../../core/api";
import { corePath, decoded, flowPath, type FlowClient } from "../../core/flow/client";
import { Live } from "../../core/flow/live";
import type { Execution } from "../../core/flow/run";
import type { Deployment, Diagnostic, FlowVersion, Graph } from "../../core/flow/types";
import { ago } from "../../core/format";
import { Refusal } from "../../parts/dialog";
import { Copy, Shown } from "../../parts/parts";
import { Findings } from "./dialogs";
import type { Editor } from "./editor";
import { problemOf } from "./saving";

type Tab = "problems" | "yaml" | "ir" | "runs" | "versions";

/** Bottom shows the problems of the drawing, and what it is compiled to. */
export function Bottom(props: { ed: Editor; flows: FlowClient; id: string; run: (core: string) => void; jumped: () => void }): JSX.Element {
  const [tab, setTab] = createSignal<Tab | "">("");
  const tabs: [Tab, () => string][] = [
    ["problems", () => `Problems${props.ed.problems().length > 0 ? ` ${props.ed.problems().length}` : ""}`], ["yaml", () => "YAML"], ["ir", () => "IR"], ["runs", () => "Runs"], ["versions", () => "Versions"],
  ];
  return (
    <section class="bottom" aria-label="Below the canvas">
      <div class="chips" role="group" aria-label="Show">
        <For each={tabs}>{([t, name]) => <button type="button" class="chip" aria-pressed={tab() === t} onClick={() => setTab(tab() === t ? "" : t)}>{name()}</button>}</For>
      </div>
      <Show when={tab()}>
        <div class="below" tabindex="0" role="region" aria-label={tabs.find(([t]) => t === tab())?.[1]()}>
          <Switch>
            <Match when={tab() === "problems"}><Show when={props.ed.problems().length > 0} fallback={<p class="hint">No problems.</p>}><Findings ed={props.ed} all={props.ed.problems()} jumped={props.jumped} /></Show></Match>
            <Match when={tab() === "yaml" || tab() === "ir"}><Show when={tab() as "yaml" | "ir"} keyed>{(t) => <Compiled ed={props.ed} flows={props.flows} format={t} />}</Show></Match>
            <Match when={tab() === "versions"}><Versions id={props.id} /></Match>
            <Match when={tab() === "runs"}><Runs id={props.id} run={props.run} /></Match>
          </Switch>
        </div>
      </Show>
    </section>
  );
}

/** Compiled is the drawing as YAML or as the program that runs, as one draws. */
function Compiled(props: { ed: Editor; flows: FlowClient; format: "yaml" | "ir" }): JSX.Element {
  const [text, setText] = createSignal("");
  const [errors, setErrors] = createSignal<(string | Diagnostic)[]>([]);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const live = new Live(
    (g: Graph, signal: AbortSignal) => props.flows.compile(g, props.format, signal),
    (a) => {
      setProblem(null);
      setErrors(a.errors ?? []);
      if (a.body) setText(props.format === "ir" ? pretty(decoded(a.body)) : a.body);
    },
    (err) => setProblem(problemOf(err)),
  );
  void live.now(props.ed.graph());
  createEffect(on(props.ed.graph, (g) => live.changed(g), { defer: true }));
  onCleanup(() => live.stop());
  const wrong = () => errors().filter((e) => typeof e === "string" || e.severity !== "warning");
  return (
    <>
      <Show when={problem()}>{(p) => <Refusal problem={p()} />}</Show>
      <Show when={wrong().length > 0}>
        <p class="problem">{text() ? "Below is the drawing as it was before these errors." : "It cannot be compiled yet."}</p>
        <ul class="findings"><For each={wrong()}>{(e) => <li>{typeof e === "string" ? e : e.message}</li>}</For></ul>
      </Show>
      <Show when={text()}><div class="code"><Copy text={text()} /><pre>{text()}</pre></div></Show>
    </>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Versions lists what was saved, each to be looked at. */
function Versions(props: { id: string }): JSX.Element {
  const versions = useQuery<{ items: FlowVersion[] }>(() => flowPath(props.id, "versions"), 10_000, "version");
  return (
    <Shown of={versions} what="The versions">
      {(v) => (
        <ul class="list">
          <For each={v.items}>{(x) => <li><A href={`/flows/${encodeURIComponent(props.id)}?version=${encodeURIComponent(x.version)}`}>{x.version}</A><span class="soft">{x.created_by}, {ago(x.created_at, now())}</span></li>}</For>
        </ul>
      )}
    </Shown>
  );
}

/** Runs lists where the flow was deployed, and the newest executions of its Core. */
function Runs(props: { id: string; run: (core: string) => void }): JSX.Element {
  const deployed = useQuery<{ items: Deployment[] }>(() => flowPath(props.id, "deployments"), 5000, "deployment_id");
  const core = () => deployed.data?.items.find((d) => d.core_slug)?.core_id ?? null;
  const executions = useQuery<{ executions: Execution[] }>(() => (core() ? corePath("executions") + query({ core_id: core(), limit: 20 }) : null), 3000, "execution_id");
  return (
    <Shown of={deployed} what="The deployments">
      {(d) => (
        <Show when={core()} fallback={<p class="hint">{d.items.length > 0 ? "The Core of this flow was deleted. Deploy it again." : "Not deployed yet."}</p>}>
          {(c) => (
            <>
              <p>Version {d.items[0]!.version} is deployed as <b>{d.items[0]!.core_slug}</b>, {ago(d.items[0]!.deployed_at, now())}. <button type="button" class="primary" onClick={() => props.run(c())}>Run it…</button></p>
              <Shown of={executions} what="The executions">
                {(x) => (
                  <ul class="list">
                    <For each={x.executions} fallback={<li class="hint">No run yet.</li>}>
                      {(e) => <li><A href={`/flows/${encodeURIComponent(props.id)}/runs/${encodeURIComponent(e.execution_id)}`}>{e.execution_id}</A><span>{e.status} <span class="soft">{ago(e.created_at, now())}</span></span></li>}
                    </For>
                  </ul>
                )}
              </Shown>
            </>
          )}
        </Show>
      )}
    </Shown>
  );
}
