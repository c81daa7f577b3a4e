import { A } from "@solidjs/router";
import { For, Show, createMemo, createSignal, onCleanup, type JSX } from "solid-js";
import { events, now, session, shared, useQuery, useRaw } from "../app/console";
import { api, query } from "../core/api";
import { ago, clock, count, duration, gpus, percent } from "../core/format";
import { nodesOf, type MapAnswer } from "../core/map";
import type { Entry } from "../core/queries";
import type { JobPage, QueueHead } from "../core/types";
import { GpuMap } from "../parts/gpumap";
import { Empty, JobLink, Loading, Shown, Status, title } from "../parts/parts";

/** Overview answers: is all well, what is used, what waits, what do my jobs do. */
export function Overview(): JSX.Element {
  title(() => "Overview");
  const map = useRaw<MapAnswer>(() => `${api}/cluster/map`);
  const shown = createMemo(() => ({ data: map().data && nodesOf(map().data!), error: map().error }));
  const queue = useQuery<QueueHead>(() => `${api}/queue?limit=6`, 4000);
  const fields = "job_id,name,status,stopping,user_id,created_at,started_at,finished_at,progress,resource_config,nodes";
  const jobs = useQuery<JobPage>(() => `${api}/jobs${query({ user: "me", page_size: 6, fields })}`, 4000);
  const names = createMemo(() => new Map([...(queue.data?.jobs ?? []), ...(jobs.data?.jobs ?? [])].map((j) => [j.job_id, j.name])));
  // Everything is shown at once, so that nothing moves when the last answer comes; a slow one is not waited for.
  const [late, setLate] = createSignal(false);
  const timer = setTimeout(() => setLate(true), 1500);
  onCleanup(() => clearTimeout(timer));
  const ready = createMemo<boolean>((before) => before || late() || [shown(), queue, jobs].every((q) => q.data || q.error));
  return (
    <div class="overview">
      <Headline />
      <Show when={ready()} fallback={<Loading rows={4} />}>
      <Shown of={shown()} what="The map of GPUs" rows={2}>
        {(all) => (
          <Show when={all.length > 0} fallback={<section class="panel"><Empty line="mind agent --help">No node has registered yet. An agent on each GPU node does that.</Empty></section>}>
            <GpuMap nodes={shown().data ?? []} />
          </Show>
        )}
      </Shown>
      <div class="three">
        <Waiting queue={queue} />
        <Mine jobs={jobs} />
        <Events names={names()} />
      </div>
      </Show>
    </div>
  );
}

function Headline(): JSX.Element {
  const c = () => shared.cluster.data;
  const running = () => (c()?.jobs["RUNNING"] ?? 0) + (c()?.jobs["STARTING"] ?? 0) + (c()?.jobs["ALLOCATED"] ?? 0);
  return (
    <div class={`headline ${shared.verdict().level}`}>
      <h1 aria-live="polite">{shared.verdict().text}</h1>
      <Show when={c()}>
        {(c) => (
          <ul class="figures">
            <li><b>{count(c().gpus_allocated)}</b> of {count(c().gpus_healthy)} GPUs held</li>
            <Show when={c().gpu_utilization !== null}><li><b>{percent(c().gpu_utilization)}</b> busy</li></Show>
            <li><b>{count(running())}</b> {running() === 1 ? "job runs" : "jobs run"}</li>
            <Show when={c().jobs["HELD"]}>{(n) => <li><b>{count(n())}</b> held back</li>}</Show>
            <li><b>{count(c().nodes_ready)}</b> of {count(c().nodes_total)} nodes ready</li>
          </ul>
        )}
      </Show>
    </div>
  );
}

function Waiting(props: { queue: Entry<QueueHead> }): JSX.Element {
  return (
    <section class="panel" aria-labelledby="waiting">
      <header><h2 id="waiting">Head of the queue</h2><A href="/queue">All {props.queue.data ? count(props.queue.data.depth) : ""} waiting</A></header>
      <Shown of={props.queue} what="The queue">
        {(q) => (
          <Show when={q.jobs.length > 0} fallback={<Empty line="mind submit --gpus 8 -- python train.py">Nothing of yours waits.</Empty>}>
            <ol class="list">
              <For each={q.jobs}>
                {(j) => (
                  <li>
                    <span class="place">{j.position}</span>
                    <div>
                      <p><JobLink id={j.job_id} name={j.name} /><span class="soft">{gpus(j)}</span></p>
                      <p class="why">{j.reason}</p>
                    </div>
                    <span class="soft">{j.estimated_wait_seconds === null ? "" : `~${duration(j.estimated_wait_seconds)}`}</span>
                  </li>
                )}
              </For>
            </ol>
          </Show>
        )}
      </Shown>
    </section>
  );
}

function Mine(props: { jobs: Entry<JobPage> }): JSX.Element {
  return (
    <section class="panel" aria-labelledby="mine">
      <header><h2 id="mine">My jobs</h2><A href="/jobs?user=me">All</A></header>
      <Shown of={props.jobs} what="The list of jobs">
        {(page) => (
          <Show when={page.jobs.length > 0} fallback={<Empty line="mind submit -- echo hello">{session()?.user_id} has submitted nothing yet.</Empty>}>
            <ul class="list">
              <For each={page.jobs}>
                {(j) => (
                  <li>
                    <div>
                      <p><JobLink id={j.job_id} name={j.name} /></p>
                      <p class="why"><Status status={j.status} stopping={j.stopping} /> {j.progress && j.progress.total_steps > 0 ? `step ${count(j.progress.step)} of ${count(j.progress.total_steps)}` : ""}</p>
                    </div>
                    <span class="soft">{ago(j.finished_at ?? j.started_at ?? j.created_at, now())}</span>
                  </li>
                )}
              </For>
            </ul>
          </Show>
        )}
      </Shown>
    </section>
  );
}

function Events(props: { names: Map<string, string> }): JSX.Element {
  const told = () => events().slice(0, 10);
  return (
    <section class="panel" aria-labelledby="events">
      <header><h2 id="events">What happens</h2></header>
      <Show when={told().length > 0} fallback={<Empty line="mind events">Nothing has happened lately.</Empty>}>
        <ol class="list events">
          <For each={told()}>
            {({ event, said }) => (
              <li>
                <time datetime={event.time}>{clock(event.time, now())}</time>
                <p>{said.before}<Show when={said.job}>{(id) => <JobLink id={id()} name={props.names.get(id()) || short(id())} />}</Show>{said.after}</p>
              </li>
            )}
          </For>
        </ol>
      </Show>
    </section>
  );
}

const short = (id: string) => (id.length > 16 ? id.slice(0, 12) + "…" : id);
