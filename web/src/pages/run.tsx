import { A, useParams } from "@solidjs/router";
import { Show, createEffect, createMemo, createSignal, on, type JSX } from "solid-js";
import { client, now, queries, useQuery, useRaw } from "../app/console";
import { api, query } from "../core/api";
import { coresPath, corePath, flowClient, flowsPath } from "../core/flow/client";
import { Kinds, whole } from "../core/flow/graph";
import { named } from "../core/flow/rules";
import { ran, type CoreEvent, type Execution } from "../core/flow/run";
import type { Deployment, FlowDetail, Graph, KindTable } from "../core/flow/types";
import { ago, clock, duration, since } from "../core/format";
import { line } from "../core/shell";
import type { Job } from "../core/types";
import { Dialog } from "../parts/dialog";
import { Command, Failure, Loading, title } from "../parts/parts";
import { createEditor, type Mark } from "./flow/editor";
import { Answer } from "./flow/answer";
import { Inspector } from "./flow/inspector";
import { Outline } from "./flow/outline";
import { Node, Value } from "./flow/result";
import { Stage, useLoaded } from "./flow";

/** RunPage shows an execution on the drawing of its flow, in the version that was deployed. */
export function RunPage(): JSX.Element {
  const params = useParams<{ id: string; execution: string }>();
  return <Show when={`${params.id} ${params.execution}`} keyed>{(key) => <Loaded flow={key.split(" ")[0]!} execution={key.split(" ")[1]!} />}</Show>;
}

interface Drawn {
  flow: FlowDetail;
  execution: Execution;
  graph: Graph;
  /** Empty: the version that ran is not known any more, and the newest one is drawn. */
  version: string;
}

async function load(flow: string, execution: string): Promise<Drawn> {
  const flows = flowClient(client);
  const [f, e, deployments] = await Promise.all([flows.get(flow), client.get<Execution>(corePath("executions", execution)), flows.deployments(flow)]);
  const d = deployments.find((x: Deployment) => x.core_id === e.data.core_id && x.core_version === e.data.version);
  const v = d ? await flows.version(flow, d.version).catch(() => null) : null;
  return { flow: f, execution: e.data, graph: whole(v?.content ?? f.content), version: v?.content ? d!.version : "" };
}

function Loaded(props: { flow: string; execution: string }): JSX.Element {
  const loaded = useLoaded(() => load(props.flow, props.execution));
  const kinds = useQuery<KindTable>(() => `${flowsPath}/kinds`, Infinity, "kind");
  return (
    <Show when={loaded.data() && kinds.data} fallback={
      <div class="plain">
        <h1 class="alone">Run</h1>
        <Show when={loaded.problem() ?? kinds.error} fallback={<Loading rows={4} />}>{(p) => <Failure problem={p()} what="The run" />}</Show>
      </div>
    }>
      <Run drawn={loaded.data()!} kinds={new Kinds(JSON.parse(JSON.stringify(kinds.data)) as KindTable)} />
    </Show>
  );
}

const over = ["completed", "failed", "canceled"];
// How many pages of older events are read once, of 500 each.
const pages = 10;

function Run(props: { drawn: Drawn; kinds: Kinds }): JSX.Element {
  const { flow, execution: first } = props.drawn;
  const id = first.execution_id;
  const ed = createEditor(props.kinds, props.drawn.graph, true);
  const every = () => 5000;
  const execution = useRaw<Execution>(() => corePath("executions", id), every());
  const events = useRaw<{ events: CoreEvent[]; next_cursor: string }>(() => `${coresPath}/events${query({ execution_id: id, limit: 500 })}`, every());
  const jobs = useRaw<{ jobs: Job[] }>(() => `${api}/jobs${query({ label: [`execution=${id}`], fields: "job_id,status,labels,resource_config", page_size: 100 })}`, every());
  const [older, setOlder] = createSignal<CoreEvent[]>([]);
  const [canceling, setCanceling] = createSignal(false);
  let read = false;
  createEffect(async () => {
    let cursor = events().data?.next_cursor;
    if (!cursor || read) return;
    read = true;
    const all: CoreEvent[] = [];
    for (let i = 0; cursor && i < pages; i++) {
      const { data }: { data: { events: CoreEvent[]; next_cursor: string } } = await client.get(`${coresPath}/events${query({ execution_id: id, limit: 500, cursor })}`);
      all.push(...data.events);
      cursor = data.next_cursor;
    }
    setOlder(all);
  });
  const e = () => execution().data ?? first;
  const states = createMemo(() => ran(e(), [...(events().data?.events ?? []), ...older()].reverse(), jobs().data?.jobs ?? []));
  createEffect(() => {
    const marks = new Map<string, Mark>(ed.graph().nodes.map((n) => [n.id, { state: "idle", text: "" }]));
    for (const [node, r] of states()) marks.set(node, { state: r.state, text: r.text });
    ed.setMarks(marks);
  });
  const asks = createMemo(() => e().waiting_for.filter((w) => w.kind === "decision"));
  // A question is shown as soon as it is asked, unless one looks at something else.
  createEffect(on(() => asks()[0]?.node_id, (node) => {
    if (!node || ed.single()) return;
    ed.select([node]);
    ed.reveal(node);
  }));
  const decision = () => asks().find((w) => w.node_id === ed.single())?.id ?? null;
  const selected = () => (ed.single() ? ed.byId().get(ed.single()!) : undefined);
  const gpus = () => [...states().values()].reduce((sum, r) => sum + r.gpus, 0);
  title(() => `${flow.name}, ${e().status}`);
  const took = () => duration((since(e().created_at, e().finished_at ? Date.parse(e().finished_at!) : now()) ?? 0));
  return (
    <div class="flow run">
      <header class="bar">
        <p class="trail"><A href="/flows">Flows</A> / <A href={`/flows/${encodeURIComponent(flow.id)}`}>{flow.name}</A></p>
        <h1 class="cut">{id}</h1>
        <span class="tag" data-status={e().status}>{e().status}</span>
        <span class="soft">version {props.drawn.version || "unknown"}, {took()}{gpus() > 0 ? `, holds ${gpus()} GPU${gpus() === 1 ? "" : "s"}` : ""}</span>
        <div class="actions"><Show when={!over.includes(e().status)}><button type="button" onClick={() => setCanceling(true)}>Cancel…</button></Show></div>
      </header>
      <Show when={!props.drawn.version}><div class="notice offer">The version that this run has is not kept any more. The newest one is drawn: it may differ.</div></Show>
      <Show when={execution().error}>{(p) => <div class="notice bad offer" role="alert"><p>{p().message}</p></div>}</Show>
      <div class="desk">
        <nav class="left" aria-label="Nodes"><Outline ed={ed} inspect={() => undefined} chooseTarget={() => undefined} /></nav>
        <Stage ed={ed} inspect={() => undefined} chooseTarget={() => undefined} />
        <Inspector ed={ed} chooseTarget={() => undefined}>
          <Show when={decision()} keyed>{(d) => <Answer id={d} />}</Show>
          <Show when={selected()}>{(n) => <Node name={named(n())} ran={states().get(n().id)} />}</Show>
          <Show when={!selected()}>
            <section class="of-run">
              <h2>{e().status}</h2>
              <Show when={asks()[0]}>{(w) => <p><button type="button" class="primary" onClick={() => { ed.select([w().node_id]); ed.reveal(w().node_id); }}>Answer what it asks</button></p>}</Show>
              <Show when={e().error}>{(err) => <p class="problem">{err().code}: {err().message}</p>}</Show>
              <Value name="Input" value={e().input} />
              <Show when={e().status === "completed"}><Value name="Output" value={e().output} /></Show>
              <p class="hint">Began {clock(e().created_at, now())}, {ago(e().created_at, now())}.</p>
            </section>
          </Show>
        </Inspector>
      </div>
      <footer class="state-line"><span>{[...states().values()].filter((r) => r.state === "done").length} of {ed.graph().nodes.length} nodes ran</span><span class="said" role="status">{asks().length > 0 ? "It asks: answer on the right." : ""}</span><Command line={line("mind", "execution", "watch", id)} /></footer>
      <Show when={canceling()}>
        <Dialog title="Cancel the run?" button="Cancel the run" danger close={() => setCanceling(false)} command={line("mind", "execution", "cancel", id)}
          act={async () => { await client.write("POST", corePath("executions", id, "cancel"), {}); queries.refresh(coresPath); }}>
          <p>Its jobs are canceled, and its questions are taken back.</p>
        </Dialog>
      </Show>
    </div>
  );
}

