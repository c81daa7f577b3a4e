import { A } from "@solidjs/router";
import { For, Show, createMemo, type JSX } from "solid-js";
import { now, useQuery } from "../../app/console";
import { path } from "../../core/api";
import { ago, ahead, clock, count, duration, plural, since } from "../../core/format";
import { factsOf, heading } from "../../core/obstacles";
import { line } from "../../core/shell";
import { kindOf, over } from "../../core/status";
import type { Explanation, Job, PastAttempt } from "../../core/types";
import { Command, Fact, JobLink, Shown, Status } from "../../parts/parts";

/** JobOverview says why a job is where it is, and what it has been through. */
export function JobOverview(props: { job: Job }): JSX.Element {
  const waits = () => kindOf(props.job.status) === "waits" || props.job.status === "PAUSED";
  return (
    <div class="columns">
      <div>
        <Show when={waits()} fallback={<Reason job={props.job} />}><Why job={props.job} /></Show>
        <Attempts job={props.job} />
      </div>
      <aside><About job={props.job} /></aside>
    </div>
  );
}

function Reason(props: { job: Job }): JSX.Element {
  const failed = () => kindOf(props.job.status) === "failed";
  const j = () => props.job;
  return (
    <section class="panel" classList={{ bad: failed() }}>
      <header><h2>{over(j().status) ? "How it ended" : "How it goes"}</h2></header>
      <p class="lead">{j().error_message || j().reason || (over(j().status) ? "It ran to its end." : "Its processes run.")}</p>
      <Show when={j().progress && j().progress!.total_steps > 0}>
        <div class="progress">
          <progress value={j().progress!.step} max={j().progress!.total_steps} aria-label="Steps" />
          <span>step {count(j().progress!.step)} of {count(j().progress!.total_steps)}</span>
        </div>
      </Show>
      <dl class="facts inline">
        <Show when={j().exit_code !== null}><Fact name="exit code">{j().exit_code}</Fact></Show>
        <Show when={j().error_type}><Fact name="error type">{j().error_type}</Fact></Show>
      </dl>
    </section>
  );
}

function Why(props: { job: Job }): JSX.Element {
  const why = useQuery<Explanation>(() => path("jobs", props.job.job_id, "explain"), 5000, "message");
  return (
    <section class="panel" aria-labelledby="why">
      <header><h2 id="why">Why it waits</h2></header>
      <Shown of={why} what="The explanation" rows={3}>
        {(e) => (
          <>
            <Show when={e.obstacles.length === 0}><p class="lead">{e.reason || "Nothing keeps it: it starts with the next plan of the scheduler."}</p></Show>
            <ul class="obstacles">
              <For each={e.obstacles}>
                {(o) => (
                  <li>
                    <h3><span class="tag">{heading(o.kind)}</span>{o.message}</h3>
                    <dl class="facts">
                      <For each={factsOf(o, now())}>{(f) => <Fact name={f.name}>{f.value}</Fact>}</For>
                      <Show when={o.job_ids.length > 0}>
                        <Fact name="jobs"><For each={o.job_ids.slice(0, 5)}>{(id, i) => <>{i() > 0 ? ", " : ""}<JobLink id={id} /></>}</For></Fact>
                      </Show>
                      <Show when={o.node_ids.length > 0}>
                        <Fact name="nodes"><For each={o.node_ids.slice(0, 5)}>{(id, i) => <>{i() > 0 ? ", " : ""}<A href={`/nodes/${encodeURIComponent(id)}`}>{id}</A></>}</For></Fact>
                      </Show>
                    </dl>
                  </li>
                )}
              </For>
            </ul>
            <p class="estimate">
              <Show when={e.queue_position}>{(p) => <span><b>Place {count(p())}</b> in queue {props.job.queue}. </span>}</Show>
              <Show when={e.estimated_start_at} fallback="When it starts is not known.">
                {(at) => <span>It starts <b>{ahead(at(), now())}</b> at the earliest<Show when={e.starts_after}>{(id) => <>, when <JobLink id={id()} /> ends</>}</Show>.</span>}
              </Show>
            </p>
            <Show when={e.remedies.length > 0}><Remedies of={e} /></Show>
          </>
        )}
      </Shown>
    </section>
  );
}

function Remedies(props: { of: Explanation }): JSX.Element {
  return (
    <div class="remedies">
      <h3>It would start now</h3>
      <ul>
        <For each={props.of.remedies}>
          {(r) => (
            <li>
              <p>{r.message}<Show when={r.operator}><span class="tag">operator</span></Show><Show when={r.answer?.preempts}>{(n) => <span class="soft">, after {plural(n(), "job")} {n() === 1 ? "is" : "are"} preempted</span>}</Show></p>
              <Show when={r.command || r.flags}><Command line={r.command || `mind submit ${r.flags}`} label={r.message} /></Show>
            </li>
          )}
        </For>
      </ul>
    </div>
  );
}

function Attempts(props: { job: Job }): JSX.Element {
  const past = createMemo(() => [...props.job.past_attempts].reverse());
  const j = () => props.job;
  return (
    <section class="panel" aria-labelledby="attempts">
      <header><h2 id="attempts">Attempts</h2></header>
      <Show when={j().attempt > 0} fallback={<p class="soft">It has not been tried yet.</p>}>
        <ol class="timeline">
          <li classList={{ now: !over(j().status) }}>
            <p><b>Attempt {j().attempt}</b> <Status status={j().status} stopping={j().stopping} /> <span class="soft">{j().started_at ? clock(j().started_at, now()) : ""}</span></p>
            <Show when={j().tasks.length > 0}>
              <table class="tasks">
                <thead><tr><th scope="col">Rank</th><th scope="col">Node</th><th scope="col">GPUs</th><th scope="col">State</th><th scope="col">Exit code</th></tr></thead>
                <tbody>
                  <For each={j().tasks}>
                    {(t) => <tr><td>{t.rank}</td><td><A href={`/nodes/${encodeURIComponent(t.node_id)}`}>{t.node_id}</A></td><td>{t.gpus.length}</td><td>{(t.state ?? "").toLowerCase()}</td><td>{t.exit_code ?? "–"}</td></tr>}
                  </For>
                </tbody>
              </table>
            </Show>
          </li>
          <For each={past()}>{(a) => <Past attempt={a} />}</For>
        </ol>
      </Show>
    </section>
  );
}

function Past(props: { attempt: PastAttempt }): JSX.Element {
  const a = () => props.attempt;
  const ran = () => {
    const [from, to] = [since(a().started_at, now()), since(a().finished_at, now())];
    return from === null || to === null ? "" : ` · ran ${duration(from - to)}`;
  };
  return (
    <li>
      <p><b>Attempt {a().attempt}</b> <span class="soft">{a().nodes.join(", ")}{ran()} · ended {ago(a().finished_at, now())}</span></p>
      <p class="why">{a().reason}<Show when={a().failed_node}>{(n) => <> (avoids <A href={`/nodes/${encodeURIComponent(n())}`}>{n()}</A> if it can)</>}</Show></p>
    </li>
  );
}

const causes: Record<string, string> = {
  node_lost: "lost nodes", gpu_fault: "GPU faults", launch_failed: "failed launches", data_fetch: "failed fetches of data",
  exit: "its own failures", preempted: "preemptions", drained: "drains",
};

function About(props: { job: Job }): JSX.Element {
  const j = () => props.job;
  const restarts = () => Object.entries(j().retries ?? {}).filter(([, n]) => n > 0);
  const argv = () => j().command_config?.argv ?? [];
  // What a shell is given is easier to read without its quotes.
  const script = () => (argv().length === 3 && /^(\/bin\/)?(ba)?sh$/.test(argv()[0]!) && argv()[1] === "-c" ? argv()[2] : "");
  const does = () => j().command_config?.command || script() || line(...argv()) || (j().training_config ? "a training" : "");
  return (
    <section class="panel" aria-labelledby="about">
      <header><h2 id="about">About it</h2></header>
      <dl class="facts">
        <Show when={does()}><Fact name="runs"><code class="wrap">{does()}</code></Fact></Show>
        <Show when={j().command_config?.cwd}>{(d) => <Fact name="in"><code class="wrap">{d()}</code></Fact>}</Show>
        <Fact name="submitted">{clock(j().created_at, now())}</Fact>
        <Show when={j().started_at}><Fact name="started">{clock(j().started_at, now())}</Fact></Show>
        <Show when={j().finished_at}><Fact name="ended">{clock(j().finished_at, now())}</Fact></Show>
        <Show when={restarts().length > 0}><Fact name="restarts">{restarts().map(([cause, n]) => `${n} ${causes[cause] ?? cause}`).join(", ")}</Fact></Show>
        <For each={Object.entries(j().labels ?? {})}>
          {([k, v]) => <Fact name={k}><A href={`/jobs?label=${encodeURIComponent(`${k}=${v}`)}`}>{v}</A></Fact>}
        </For>
      </dl>
    </section>
  );
}
