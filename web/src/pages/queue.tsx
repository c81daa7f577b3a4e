import { For, Show, type JSX } from "solid-js";
import { now, useQuery } from "../app/console";
import { api } from "../core/api";
import { ago, count, duration, gpus } from "../core/format";
import type { Queue, QueueHead } from "../core/types";
import { Command, Empty, JobLink, Shown, title } from "../parts/parts";

/** QueuePage says who waits for what, in which order, and what the queues may hold. */
export function QueuePage(): JSX.Element {
  title(() => "Queue");
  const waiting = useQuery<QueueHead>(() => `${api}/queue?limit=200`, 4000);
  const queues = useQuery<{ queues: Queue[] }>(() => `${api}/queues`, 5000, "name");
  return (
    <div class="plain">
      <header class="head"><h1>Queue</h1><Show when={waiting.data}>{(d) => <p class="soft">{count(d().depth)} waiting, {count(d().held)} held back</p>}</Show></header>
      <div class="stack">
        <Shown of={waiting} what="The queue" rows={5}>
          {(d) => (
            <Show when={d.jobs.length > 0} fallback={<section class="panel"><Empty line="mind queue">Nothing of yours waits.</Empty></section>}>
              <div class="table">
                <table>
                  <thead><tr><th scope="col" class="number">Place</th><th scope="col">Job</th><th scope="col">Queue</th><th scope="col" class="number">Priority</th><th scope="col">Asks for</th><th scope="col">Why it waits</th><th scope="col" class="number">Starts</th><th scope="col" class="number">Waits for</th></tr></thead>
                  <tbody>
                    <For each={d.jobs}>
                      {(j) => (
                        <tr data-row>
                          <td class="number">{count(j.position)}</td>
                          <th scope="row"><JobLink id={j.job_id} name={j.name} /></th>
                          <td>{j.queue}</td>
                          <td class="number">{j.priority}</td>
                          <td>{gpus(j)}</td>
                          <td class="why">{j.reason}</td>
                          <td class="number">{j.estimated_wait_seconds === null ? <span class="soft">not known</span> : `in ${duration(j.estimated_wait_seconds)} or later`}</td>
                          <td class="number soft">{ago(j.created_at, now()).replace(" ago", "")}</td>
                        </tr>
                      )}
                    </For>
                  </tbody>
                </table>
              </div>
            </Show>
          )}
        </Shown>
        <section class="panel" aria-labelledby="queues">
          <header><h2 id="queues">Queues</h2></header>
          <Shown of={queues} what="The list of queues">
            {(d) => (
              <div class="table">
                <table>
                  <thead><tr><th scope="col">Queue</th><th scope="col" class="number">Weight</th><th scope="col" class="number">Due of the cluster</th><th scope="col">GPUs of yours</th><th scope="col" class="number">Lately</th><th scope="col" class="number">Run</th><th scope="col" class="number">Wait</th><th scope="col" class="number">Held back</th></tr></thead>
                  <tbody>
                    <For each={d.queues}>
                      {(q) => (
                        <tr>
                          <th scope="row">{q.name}<Show when={q.parent}><span class="soft"> in {q.parent}</span></Show></th>
                          <td class="number">{q.weight}</td>
                          <td class="number">{q.share_percent.toFixed(0)} %</td>
                          <td>{count(q.gpus_allocated)}<Show when={q.max_gpus > 0}> <span class="soft">of at most {count(q.max_gpus)}</span></Show></td>
                          <td class="number">{count(q.gpus_lately)}</td>
                          <td class="number">{count(q.running)}</td>
                          <td class="number">{count(q.queued)}</td>
                          <td class="number">{count(q.held)}</td>
                        </tr>
                      )}
                    </For>
                  </tbody>
                </table>
              </div>
            )}
          </Shown>
        </section>
      </div>
      <Command line="mind queue" />
    </div>
  );
}
