import { A, useParams } from "@solidjs/router";
import { For, Show, createSignal, type JSX } from "solid-js";
import { client, may, now, queries, useQuery } from "../app/console";
import { api, path } from "../core/api";
import { ago, ahead, bytes, clock, count, percent } from "../core/format";
import { line } from "../core/shell";
import type { DrainEffect, Node } from "../core/types";
import { Dialog } from "../parts/dialog";
import { Command, Fact, JobLink, NodeStatus, Shown, title } from "../parts/parts";
import { gpuKind } from "./nodes";

/** NodePage is one machine: its health, what runs there, and taking it out of service. */
export function NodePage(): JSX.Element {
  const params = useParams<{ id: string }>();
  const id = () => decodeURIComponent(params.id);
  const node = useQuery<Node>(() => path("cluster", "nodes", id()), 4000, "uuid");
  title(() => id());
  return <div class="node"><Show when={!node.data}><h1 class="alone">{id()}</h1></Show><Shown of={node} what={`Node ${id()}`} rows={6}>{() => <Whole node={node.data!} />}</Shown></div>;
}

function Whole(props: { node: Node }): JSX.Element {
  const n = () => props.node;
  const [asked, setAsked] = createSignal<"drain" | "enable" | null>(null);
  const enable = async () => {
    await client.write("POST", path("cluster", "nodes", n().node_id, "enable"), {});
    queries.refresh(`${api}/cluster`);
  };
  const out = () => n().state === "DRAINED" || n().state === "DRAINING";
  return (
    <>
      <header class="head">
        <p class="trail"><A href="/nodes">Nodes</A> <span aria-hidden="true">/</span></p>
        <div class="titled">
          <h1>{n().node_id}</h1>
          <NodeStatus state={n().state} />
          <span class="soft">{n().reason}</span>
          <div class="actions">
            <Show when={may("scaimind:cluster_admin")} fallback={<span class="soft">Draining it takes scaimind:cluster_admin</span>}>
              <Show when={out()} fallback={<button onClick={() => setAsked("drain")}>Drain…</button>}><button class="primary" onClick={() => setAsked("enable")}>Enable…</button></Show>
            </Show>
          </div>
        </div>
        <ul class="figures">
          <li><b>{n().gpus_free}</b> of {n().gpus.length} GPUs free</li>
          <li><b>{count(n().cpu_count)}</b> CPUs</li>
          <li><b>{bytes(n().memory_mb * 2 ** 20)}</b></li>
          <li>heard of <b>{ago(n().last_seen_at, now())}</b></li>
          <Show when={n().drain_deadline}>{(d) => <li>stops what still runs <b>{ahead(d(), now())}</b></li>}</Show>
          <Show when={n().unreachable_since}>{(d) => <li class="problem">unreachable since {clock(d(), now())}</li>}</Show>
        </ul>
      </header>
      <div class="columns">
        <section class="panel" aria-labelledby="gpus"><header><h2 id="gpus">GPUs</h2></header><Gpus node={n()} /></section>
        <aside><About node={n()} /></aside>
      </div>
      <Command line={`mind nodes ${n().node_id}`} />
      <Show when={asked() === "drain"}><Drain node={n()} close={() => setAsked(null)} /></Show>
      <Show when={asked() === "enable"}>
        <Dialog title={`Enable ${n().node_id}?`} close={() => setAsked(null)} command={line("mind", "enable", n().node_id)} button="Enable" act={enable}><p>Jobs are placed on it again.</p></Dialog>
      </Show>
    </>
  );
}

function Gpus(props: { node: Node }): JSX.Element {
  return (
    <div class="table">
      <table>
        <thead><tr><th scope="col" class="number">#</th><th scope="col">Model</th><th scope="col">Health</th><th scope="col">Job</th><th scope="col">Works</th><th scope="col">Memory</th><th scope="col">NVLink to</th></tr></thead>
        <tbody>
          <For each={props.node.gpus}>
            {(g) => (
              <tr>
                <td class="number"><i class={`cell ${gpuKind(g)}`} aria-hidden="true" /> {g.index}</td>
                <td>{g.gpu_type} <span class="soft">{g.simulated ? "simulated" : g.model}</span></td>
                <td classList={{ problem: g.health !== "HEALTHY" }}>{g.health.toLowerCase()}<Show when={g.health_reason}><p class="why">{g.health_reason}</p></Show></td>
                <td><Show when={g.job_id} fallback={<span class="soft">–</span>}><JobLink id={g.job_id} /></Show></td>
                <td><Show when={g.utilization !== null} fallback={<span class="soft">–</span>}><meter min="0" max="1" value={g.utilization ?? 0} aria-label={`GPU ${g.index} works`} /> {percent(g.utilization)}</Show></td>
                <td><Show when={g.memory_used_mb !== null} fallback={<span class="soft">{bytes(g.memory_mb * 2 ** 20)}</span>}>{bytes((g.memory_used_mb ?? 0) * 2 ** 20)} <span class="soft">of {bytes(g.memory_mb * 2 ** 20)}</span></Show></td>
                <td class="soft">{g.nvlink_peers.length === props.node.gpus.length - 1 && g.nvlink_peers.length > 0 ? "all others" : g.nvlink_peers.join(", ") || "–"}</td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  );
}

function About(props: { node: Node }): JSX.Element {
  const n = () => props.node;
  return (
    <section class="panel" aria-labelledby="about">
      <header><h2 id="about">About it</h2></header>
      <dl class="facts">
        <Fact name="host">{n().hostname || "–"}</Fact>
        <Fact name="agent">{n().agent_version || "–"}</Fact>
        <Fact name="registered">{clock(n().registered_at, now())}</Fact>
        <For each={n().domains}>{(d) => <Fact name={d.level.replace("mind.io/", "")}>{d.name}</Fact>}</For>
        <Fact name="tasks">{n().tasks}</Fact>
        <Show when={n().job_ids.length > 0}><Fact name="your jobs"><For each={n().job_ids}>{(id) => <p><JobLink id={id} /></p>}</For></Fact></Show>
        <For each={Object.entries(n().labels).filter(([k]) => !n().domains.some((d) => d.level === k))}>{([k, v]) => <Fact name={k}>{v}</Fact>}</For>
      </dl>
    </section>
  );
}

function Drain(props: { node: Node; close: () => void }): JSX.Element {
  const [how, setHow] = createSignal<"wait" | "deadline" | "force">("wait");
  const [minutes, setMinutes] = createSignal(10);
  const [reason, setReason] = createSignal("");
  const [effects, setEffects] = createSignal<DrainEffect[] | null>(null);
  const [failed, setFailed] = createSignal("");
  const where = () => path("cluster", "nodes", props.node.node_id, "drain");
  const request = () => ({ force: how() === "force", deadline_seconds: how() === "deadline" ? minutes() * 60 : 0, reason: reason() });
  let asked = 0;
  const rehearse = async () => {
    const mine = ++asked;
    try {
      const { data } = await client.write<{ effects: DrainEffect[] }>("POST", where(), { ...request(), dry_run: true });
      if (mine === asked) setEffects(data.effects);
    } catch (err) {
      if (mine === asked) setFailed((err as Error).message);
    }
  };
  void rehearse();
  const choose = (h: "wait" | "deadline" | "force") => {
    setHow(h);
    void rehearse();
  };
  const command = () => line("mind", "drain", props.node.node_id, ...(how() === "force" ? ["--force"] : how() === "deadline" ? ["--deadline", `${minutes()}m`] : []), ...(reason() ? ["--reason", reason()] : []));
  const act = async () => {
    await client.write("POST", where(), request());
    queries.refresh(`${api}/cluster`);
  };
  return (
    <Dialog title={`Drain ${props.node.node_id}?`} close={props.close} command={command()} button="Drain" danger={how() === "force"} act={act}>
      <p>It gets nothing new, and is drained when it is empty.</p>
      <fieldset>
        <legend>What runs there</legend>
        <label class="check"><input type="radio" name="how" checked={how() === "wait"} onChange={() => choose("wait")} /> runs to its end</label>
        <label class="check"><input type="radio" name="how" checked={how() === "deadline"} onChange={() => choose("deadline")} /> is stopped and requeued after <input class="short" type="number" min="1" value={minutes()} aria-label="Minutes" onInput={(e) => { setMinutes(Math.max(1, Number(e.currentTarget.value) || 1)); choose("deadline"); }} /> minutes</label>
        <label class="check"><input type="radio" name="how" checked={how() === "force"} onChange={() => choose("force")} /> is stopped and requeued now</label>
      </fieldset>
      <label for="drain-reason">Reason</label>
      <input id="drain-reason" value={reason()} onInput={(e) => setReason(e.currentTarget.value)} autocomplete="off" />
      <div class="rehearsal" role="status">
        <h3>What would happen</h3>
        <Show when={failed()}><p class="problem">{failed()}</p></Show>
        <Show when={effects()} fallback={<Show when={!failed()}><p class="soft">Asking…</p></Show>}>
          {(all) => (
            <Show when={all().length > 0} fallback={<p class="soft">Nothing runs there: it is drained at once.</p>}>
              <ul><For each={all()}>{(e) => <li><b>{e.job_id ? e.name || e.job_id : "a job of another tenant"}</b> {e.effect}<Show when={e.effect.includes("requeued")}><span class="soft">, {e.resumes_from ? `continues from ${e.resumes_from}` : "begins again"}</span></Show></li>}</For></ul>
            </Show>
          )}
        </Show>
      </div>
    </Dialog>
  );
}
