import { For, Show, createMemo, type JSX } from "solid-js";
import { now, shared, useQuery } from "../app/console";
import { api } from "../core/api";
import { clock, count, plural, precise } from "../core/format";
import { lanesOf } from "../core/lanes";
import type { Coordinator, Failover, Replicas } from "../core/types";
import { Command, Empty, Shown, title } from "../parts/parts";

const hashes = (r: Replicas) =>
  r.hashes === "AGREE" ? `After entry ${count(r.hash_index)} all that answer have the same state.`
    : r.hashes === "DIFFER" ? `After entry ${count(r.hash_index)} the states differ.`
    : "The states cannot be compared now: not all that answer have told a hash, or their versions differ.";

/** ClusterPage shows the coordinators, how far each is, and every change of the leader. */
export function ClusterPage(): JSX.Element {
  title(() => "Cluster");
  const failovers = useQuery<{ failovers: Failover[] }>(() => `${api}/cluster/failovers`, 5000, "term");
  return (
    <div class="plain">
      <header class="head"><h1>Cluster</h1></header>
      <p class={`lead verdict ${shared.verdict().level}`}>{shared.verdict().text}</p>
      <div class="stack">
        <section class="panel" aria-labelledby="coordinators">
          <header><h2 id="coordinators">Coordinators</h2></header>
          <Shown of={shared.replicas} what="The list of coordinators">{(d) => <Coordinators of={d} />}</Shown>
        </section>
        <section class="panel" aria-labelledby="failovers">
          <header><h2 id="failovers">Failovers</h2></header>
          <Shown of={failovers} what="The list of failovers">{(d) => <Failovers all={d.failovers} />}</Shown>
        </section>
      </div>
      <Command line="mind coordinators" />
    </div>
  );
}

// What a coordinator that does not answer would say is not known.
const known = (c: Coordinator, n: number | null | undefined) => (c.reachable === false ? "–" : count(n));

function Coordinators(props: { of: Replicas }): JSX.Element {
  return (
    <div class="table">
      <table>
        <thead><tr><th scope="col">Coordinator</th><th scope="col">Role</th><th scope="col">Seen as</th><th scope="col" class="number">Term</th><th scope="col" class="number">Last entry</th><th scope="col" class="number">Behind</th><th scope="col">State hash</th><th scope="col" class="number">Levels</th><th scope="col">Version</th></tr></thead>
        <tbody>
          <For each={props.of.coordinators}>
            {(c) => (
              <tr>
                <th scope="row">{c.id}</th>
                <td>{c.leader ? <b class="leads">leads</b> : c.voter ? "follows" : "does not vote"}</td>
                <td classList={{ problem: c.liveness !== "alive" }}>{c.liveness}{c.reachable === false ? ", not reached" : ""}</td>
                <td class="number">{known(c, c.term)}</td>
                <td class="number">{known(c, c.last_index)}</td>
                <td class="number">{known(c, c.lag)}</td>
                <td><Show when={c.state_hash} fallback={<span class="soft">–</span>}>{(h) => <code>{h()}</code>}</Show></td>
                <td class="number">{c.reachable === false || c.oldest_level === c.newest_level ? known(c, c.newest_level) : `${count(c.oldest_level)} to ${count(c.newest_level)}`}</td>
                <td class="soft">{c.program || "–"}</td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
      <p class="hint">
        {hashes(props.of)} {plural(props.of.voters_reachable, "voter answers", "voters answer")}{", "}
        {count(props.of.quorum)} must agree. Feature level {count(props.of.feature_level)}.
      </p>
    </div>
  );
}

function Failovers(props: { all: Failover[] }): JSX.Element {
  const lanes = createMemo(() => lanesOf(props.all, (shared.cluster.data?.coordinators ?? []).map((c) => c.id), shared.cluster.data?.leader ?? "", now()));
  const share = (x: number) => `${(x * 100).toFixed(3)}%`;
  return (
    <Show when={props.all.length > 0} fallback={<Empty line="mind chaos kill-leader">The leader has not changed in what the cluster remembers. In a mind dev this changes it:</Empty>}>
      <div class="lanes" role="img" aria-label={`Who led from ${clock(new Date(lanes().from).toISOString(), now())} until now; the table below says the same.`}>
        <For each={lanes().lanes}>
          {(l) => (
            <div class="lane"><span>{l.id}</span><div class="track"><For each={l.led}>{(s) => <i style={{ left: share(s.from), width: share(s.to - s.from) }} title={s.term ? `term ${s.term}` : ""} />}</For></div></div>
          )}
        </For>
        <div class="lane gaps"><span>writes stood still</span><div class="track"><For each={lanes().gaps}>{(g) => <b style={{ left: share(g.at) }}>{precise(g.seconds)}</b>}</For></div></div>
      </div>
      <div class="table">
        <table>
          <thead><tr><th scope="col">At</th><th scope="col">From</th><th scope="col">To</th><th scope="col" class="number">Term</th><th scope="col" class="number">Writes stood still</th><th scope="col" class="number">Jobs running</th><th scope="col" class="number">Jobs harmed</th></tr></thead>
          <tbody>
            <For each={props.all}>
              {(f) => (
                <tr>
                  <th scope="row">{clock(f.at, now())}</th>
                  <td>{f.previous_leader || "–"}</td>
                  <td>{f.leader}</td>
                  <td class="number">{count(f.term)}</td>
                  <td class="number">{f.stood_still_seconds === null ? <span class="soft">{f.previous_leader ? "unknown" : "first start"}</span> : precise(f.stood_still_seconds)}</td>
                  <td class="number">{count(f.jobs_running)}</td>
                  <td class="number"><b classList={{ problem: (f.jobs_harmed ?? 0) > 0 }}>{count(f.jobs_harmed)}</b></td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </Show>
  );
}
