import { A, useParams } from "@solidjs/router";
import { For, Match, Show, Switch, lazy, type JSX } from "solid-js";
import { now, useQuery } from "../app/console";
import { path } from "../core/api";
import { ago, duration, gpus, since } from "../core/format";
import { over } from "../core/status";
import type { Job } from "../core/types";
import { Command, JobLink, Shown, Status, title } from "../parts/parts";
import { Actions } from "./job/actions";
import { JobOverview } from "./job/overview";

const JobLog = lazy(async () => ({ default: (await import("./job/log")).JobLog }));
const JobMetrics = lazy(async () => ({ default: (await import("./job/metrics")).JobMetrics }));
const JobCheckpoints = lazy(async () => ({ default: (await import("./job/checkpoints")).JobCheckpoints }));
const JobSpec = lazy(async () => ({ default: (await import("./job/spec")).JobSpec }));

const tabs: [string, string, (id: string) => string][] = [
  ["", "Overview", (id) => `mind explain ${id}`],
  ["log", "Log", (id) => `mind logs ${id} -f`],
  ["metrics", "Metrics", (id) => `mind metrics ${id} --plot`],
  ["checkpoints", "Checkpoints", (id) => `mind checkpoints ${id}`],
  ["spec", "Specification", (id) => `mind job ${id} -o yaml`],
];

/** JobPage is one job: how it is and why, and what can be done with it. */
export function JobPage(): JSX.Element {
  const params = useParams<{ id: string; tab?: string }>();
  const id = () => decodeURIComponent(params.id);
  const job = useQuery<Job>(() => path("jobs", id()), 3000, "rank");
  title(() => id());
  return (
    <div class="job">
      <Show when={!job.data}><h1 class="alone">{id()}</h1></Show>
      <Shown of={job} what={`Job ${id()}`} rows={5}>
        {() => <Whole job={job.data!} tab={params.tab ?? ""} />}
      </Shown>
    </div>
  );
}

function Whole(props: { job: Job; tab: string }): JSX.Element {
  const j = () => props.job;
  const base = () => `/jobs/${encodeURIComponent(j().job_id)}`;
  return (
    <>
      <header class="head">
        <p class="trail"><A href="/jobs">Jobs</A> <span aria-hidden="true">/</span></p>
        <div class="titled">
          <h1>{j().name || j().job_id}</h1>
          <Status status={j().status} stopping={j().stopping} />
          <span class="soft when">{moment(j())}</span>
          <Actions job={j()} />
        </div>
        <ul class="figures">
          <li class="id">{j().job_id}</li>
          <li>{gpus(j().resource_config)}</li>
          <li>queue <b>{j().queue}</b></li>
          <li>priority <b>{j().priority}</b></li>
          <li>by <b>{j().user_id}</b></li>
          <Show when={j().attempt > 1}><li>attempt <b>{j().attempt}</b></li></Show>
          <Show when={j().nodes.length > 0}>
            <li>on <For each={j().nodes}>{(n, i) => <>{i() > 0 ? ", " : ""}<A href={`/nodes/${encodeURIComponent(n)}`}>{n}</A></>}</For></li>
          </Show>
        </ul>
      </header>
      <nav class="tabs" aria-label="About this job">
        <For each={tabs}>{([tab, name]) => <A href={tab ? `${base()}/${tab}` : base()} end>{name}</A>}</For>
      </nav>
      <Switch fallback={<p class="notice">There is no such page about a job. <JobLink id={j().job_id} name="Its overview" /></p>}>
        <Match when={props.tab === ""}><JobOverview job={j()} /></Match>
        <Match when={props.tab === "log"}><JobLog job={j()} /></Match>
        <Match when={props.tab === "metrics"}><JobMetrics job={j()} /></Match>
        <Match when={props.tab === "checkpoints"}><JobCheckpoints job={j()} /></Match>
        <Match when={props.tab === "spec"}><JobSpec job={j()} /></Match>
      </Switch>
      <Show when={tabs.find(([t]) => t === props.tab)}>{(t) => <Command line={t()[2](j().job_id)} />}</Show>
    </>
  );
}

function moment(j: Job): string {
  if (over(j.status)) {
    const [a, b] = [since(j.started_at, now()), since(j.finished_at, now())];
    const ran = a !== null && b !== null ? `, ran ${duration(a - b)}` : "";
    return `${ago(j.finished_at, now())}${ran}`;
  }
  if (j.started_at) return `for ${duration(since(j.started_at, now()))}`;
  return `submitted ${ago(j.created_at, now())}`;
}

