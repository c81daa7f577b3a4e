import { A, useLocation, useNavigate } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createSignal, mapArray, onCleanup, type JSX } from "solid-js";
import { now, useQuery } from "../app/console";
import { api, query } from "../core/api";
import { any, command, format, orders, parse, statuses, toggled, type Filters } from "../core/filters";
import { ago, count, duration, gpus, since } from "../core/format";
import { line } from "../core/shell";
import { over } from "../core/status";
import type { Job, JobPage, Queue } from "../core/types";
import { Command, Empty, Failure, JobLink, Loading, Status, title } from "../parts/parts";
import { Rows } from "../parts/rows";

const fields = "job_id,name,status,stopping,user_id,queue,priority,queue_position,resource_config,nodes,reason,created_at,started_at,finished_at,progress,held";
const pageSize = 100;

/** Jobs lists jobs, filtered by what the address says. */
export function Jobs(): JSX.Element {
  title(() => "Jobs");
  const location = useLocation();
  const navigate = useNavigate();
  const filters = createMemo(() => parse(location.search));
  const set = (change: Partial<Filters>) => {
    const text = format({ ...filters(), ...change });
    navigate(`/jobs${text ? "?" + text : ""}`, { replace: true, scroll: false });
  };
  const path = (token: string) => {
    const f = filters();
    return api + "/jobs" + query({
      search: f.search, status: f.status, queue: f.queue, user: f.user, label: f.label, order_by: f.order,
      page_size: pageSize, page_token: token, fields, facets: token === "",
    });
  };
  const [tokens, setTokens] = createSignal([""]);
  createEffect<string>((before) => {
    const wanted = format(filters());
    if (before !== undefined && before !== wanted) setTokens([""]);
    return wanted;
  });
  const pages = createMemo(mapArray(tokens, (token) => useQuery<JobPage>(() => path(token), token === "" ? 4000 : 15_000, "job_id", true)));
  const first = () => pages()[0]!;
  const jobs = createMemo(() => {
    const seen = new Set<string>();
    return pages().flatMap((p) => p.data?.jobs ?? []).filter((j) => !seen.has(j.job_id) && seen.add(j.job_id));
  });
  const more = () => {
    const last = pages()[pages().length - 1];
    const next = last?.data?.next_page_token;
    if (next && !last.loading && !tokens().includes(next)) setTokens([...tokens(), next]);
  };
  return (
    <div class="jobs">
      <header class="head">
        <h1>Jobs</h1>
        <Show when={first().data}>
          {(d) => <p class="soft">{count(d().total_count)}{d().total_count_is_minimum ? " or more" : ""}{any(filters()) ? " match" : ""}</p>}
        </Show>
        <A class="button primary" href="/submit">Submit a job</A>
      </header>
      <FilterBar filters={filters()} set={set} facets={first().data?.facets?.status ?? {}} />
      <Show when={first().data} fallback={<Show when={first().error} fallback={<Loading rows={8} />}>{(p) => <Failure problem={p()} what="The list of jobs" />}</Show>}>
        <Show when={jobs().length > 0} fallback={
          <Show when={any(filters())} fallback={<Empty line="mind submit --name hello -- echo hello">No job has been submitted yet.</Empty>}>
            <div class="empty"><p>No job matches these filters.</p><button onClick={() => navigate("/jobs")}>Show all jobs</button></div>
          </Show>
        }>
          <Rows label="Jobs" class="jobrows" items={jobs()} height={52} end={more} head={
            <><span>Job</span><span>Status</span><span>Asks for</span><span>Runs on</span><span>User</span><span class="number">Age</span></>
          }>
            {(j) => <Row job={j} />}
          </Rows>
        </Show>
      </Show>
      <Command line={line(...command(filters()))} />
    </div>
  );
}

function FilterBar(props: { filters: Filters; set: (change: Partial<Filters>) => void; facets: Record<string, number> }): JSX.Element {
  const queues = useQuery<{ queues: Queue[] }>(() => `${api}/queues`, 30_000, "name");
  let typing: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(typing));
  const search = (text: string) => {
    clearTimeout(typing);
    typing = setTimeout(() => props.set({ search: text.trim() }), 150);
  };
  const shown = () => statuses.filter((s) => props.facets[s] || props.filters.status.includes(s));
  return (
    <form class="filters" role="search" aria-label="Filter jobs" onSubmit={(e) => e.preventDefault()}>
      <input type="search" data-filter aria-label="Name, or beginning of the id" placeholder="Name, or beginning of the id" value={props.filters.search} onInput={(e) => search(e.currentTarget.value)} />
      <select aria-label="Queue" value={props.filters.queue} onChange={(e) => props.set({ queue: e.currentTarget.value })}>
        <option value="">every queue</option>
        <For each={queues.data?.queues ?? []}>{(q) => <option value={q.name} selected={q.name === props.filters.queue}>{q.name}</option>}</For>
      </select>
      <select aria-label="Order" value={props.filters.order} onChange={(e) => props.set({ order: e.currentTarget.value })}>
        <For each={Object.entries(orders)}>{([value, name]) => <option value={value} selected={value === props.filters.order}>{name}</option>}</For>
      </select>
      <label class="check"><input type="checkbox" checked={props.filters.user === "me"} onChange={(e) => props.set({ user: e.currentTarget.checked ? "me" : "" })} /> mine only</label>
      <div class="chips" role="group" aria-label="Status">
        <For each={shown()}>
          {(s) => (
            <button type="button" class="chip" aria-pressed={props.filters.status.includes(s)} onClick={() => props.set({ status: toggled(props.filters, s).status })}>
              <Status status={s} /><b>{count(props.facets[s] ?? 0)}</b>
            </button>
          )}
        </For>
        <For each={props.filters.label}>
          {(l) => <button type="button" class="chip" aria-pressed="true" onClick={() => props.set({ label: props.filters.label.filter((x) => x !== l) })}>{l} ✕</button>}
        </For>
      </div>
    </form>
  );
}

function Row(props: { job: Job }): JSX.Element {
  const j = () => props.job;
  const lasted = () => {
    const [a, b] = [since(j().started_at, now()), since(j().finished_at, now())];
    if (a === null) return "";
    return over(j().status) && b !== null ? `ran ${duration(a - b)}` : `for ${duration(a)}`;
  };
  return (
    <>
      <span class="name"><JobLink id={j().job_id} name={j().name} /><span class="id soft">{j().job_id}</span></span>
      <span class="name"><Status status={j().status} stopping={j().stopping} /><span class="why" title={j().reason}>{over(j().status) || j().status === "TRAINING" ? lasted() : j().reason}</span></span>
      <span>{gpus(j().resource_config)}</span>
      <span class="soft cut">{j().nodes.join(", ") || "–"}</span>
      <span class="soft cut">{j().user_id}</span>
      <span class="number soft">{ago(j().created_at, now())}</span>
    </>
  );
}
