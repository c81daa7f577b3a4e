import { A, useSearchParams } from "@solidjs/router";
import { For, Show, createMemo, type JSX } from "solid-js";
import { now, useQuery } from "../app/console";
import { api } from "../core/api";
import { ago, count } from "../core/format";
import type { Gpu, Node } from "../core/types";
import { Command, Empty, NodeStatus, Shown, title } from "../parts/parts";

export const gpuKind = (g: Gpu) => (g.health !== "HEALTHY" ? "broken" : g.job_id ? "mine" : "free");

/** Nodes lists the machines, what is wrong with them first. */
export function Nodes(): JSX.Element {
  title(() => "Nodes");
  const [params, setParams] = useSearchParams<{ q?: string; state?: string }>();
  const all = useQuery<{ nodes: Node[] }>(() => `${api}/cluster/nodes`, 5000, "node_id");
  const states = createMemo(() => [...new Set((all.data?.nodes ?? []).map((n) => n.state))].sort());
  const shown = createMemo(() => {
    const q = (params.q ?? "").toLowerCase();
    const match = (n: Node) => (!params.state || n.state === params.state) && (n.node_id.toLowerCase().includes(q) || n.hostname.toLowerCase().includes(q) || n.gpus.some((g) => g.gpu_type.toLowerCase() === q));
    return (all.data?.nodes ?? []).filter(match).sort((a, b) => Number(a.state === "READY") - Number(b.state === "READY") || a.node_id.localeCompare(b.node_id, "en", { numeric: true }));
  });
  return (
    <div class="plain">
      <header class="head"><h1>Nodes</h1><Show when={all.data}>{(d) => <p class="soft">{count(d().nodes.length)}</p>}</Show></header>
      <form class="filters" role="search" aria-label="Filter nodes" onSubmit={(e) => e.preventDefault()}>
        <input type="search" data-filter aria-label="Name or type of GPU" placeholder="Name or type of GPU" value={params.q ?? ""} onInput={(e) => setParams({ q: e.currentTarget.value || undefined }, { replace: true })} />
        <div class="chips" role="group" aria-label="State">
          <For each={states()}>{(s) => <button type="button" class="chip" aria-pressed={params.state === s} onClick={() => setParams({ state: params.state === s ? undefined : s }, { replace: true })}><NodeStatus state={s} /><b>{(all.data?.nodes ?? []).filter((n) => n.state === s).length}</b></button>}</For>
        </div>
      </form>
      <Shown of={all} what="The list of nodes" rows={6}>
        {(d) => (
          <Show when={d.nodes.length > 0} fallback={<Empty line="mind agent --config agent.yaml">No node has registered. An agent on each GPU node does that.</Empty>}>
            <div class="table">
              <table>
                <thead><tr><th scope="col">Node</th><th scope="col">State</th><th scope="col">GPUs</th><th scope="col">Type</th><th scope="col" class="number">Free</th><th scope="col" class="number">Tasks</th><th scope="col">Agent</th><th scope="col" class="number">Heard of</th></tr></thead>
                <tbody>
                  <For each={shown()} fallback={<tr><td colspan={8} class="soft">No node matches.</td></tr>}>
                    {(n) => (
                      <tr data-row>
                        <th scope="row"><A href={`/nodes/${encodeURIComponent(n.node_id)}`}>{n.node_id}</A></th>
                        <td><NodeStatus state={n.state} /><Show when={n.reason}><p class="why">{n.reason}</p></Show></td>
                        <td><span class="cells" aria-hidden="true"><For each={n.gpus}>{(g) => <i class={`cell ${gpuKind(g)}`} />}</For></span><span class="hide">{n.gpus.length}</span></td>
                        <td>{[...new Set(n.gpus.map((g) => g.gpu_type))].join(", ") || "–"}</td>
                        <td class="number">{n.gpus_free} <span class="soft">of {n.gpus.length}</span></td>
                        <td class="number">{n.tasks}</td>
                        <td class="soft">{n.agent_version}</td>
                        <td class="number soft">{ago(n.last_seen_at, now())}</td>
                      </tr>
                    )}
                  </For>
                </tbody>
              </table>
            </div>
            <Command line="mind nodes" />
          </Show>
        )}
      </Shown>
    </div>
  );
}
