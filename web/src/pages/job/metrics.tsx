import { useSearchParams } from "@solidjs/router";
import { For, Show, createMemo, type JSX } from "solid-js";
import { useQuery } from "../../app/console";
import { path } from "../../core/api";
import { curve, names, value } from "../../core/curves";
import type { Job, Series } from "../../core/types";
import { over } from "../../core/status";
import { Chart } from "../../parts/chart";
import { Empty, Failure, Loading } from "../../parts/parts";

/** JobMetrics draws the numbers that a job reports, and those that its GPUs were measured at. */
export function JobMetrics(props: { job: Job }): JSX.Element {
  const [params, setParams] = useSearchParams<{ name?: string; by?: string; scale?: string }>();
  const all = useQuery<{ series: Series[]; missing: string[] }>(
    () => `${path("jobs", props.job.job_id, "metrics", "series")}?points=400`, over(props.job.status) ? 60_000 : 3000, "", true);
  const known = createMemo(() => names(all.data?.series ?? []));
  const main = () => (params.name && [...known().reported, ...known().measured].includes(params.name) ? params.name : (known().reported[0] ?? known().measured[0] ?? ""));
  const by = () => (params.by === "time" ? "time" : "step");
  const of = (name: string) => curve(all.data?.series ?? [], name, by());
  const steps = (name: string) => by() === "step" && (all.data?.series ?? []).filter((s) => s.name === name).every((s) => s.points.every((p) => p.step !== null));
  const others = () => [...known().reported, ...known().measured].filter((n) => n !== main()).slice(0, 12);
  const nothing = () => all.error?.status === 404 || (all.data && main() === "");
  return (
    <section class="metrics" aria-label="Metrics">
      <Show when={!nothing()} fallback={<Empty line={`mind metrics ${props.job.job_id} --plot`}>It has reported no number yet. A task writes lines such as {'{"step": 1, "loss": 2.3}'} to the file that MIND_METRICS_FILE names.</Empty>}>
        <Show when={all.data} fallback={<Show when={all.error} fallback={<Loading rows={6} />}>{(p) => <Failure problem={p()} what="The history of its numbers" />}</Show>}>
          <div class="panel">
            <header>
              <h2>{main()}</h2>
              <b class="newest">{value(of(main()).newest, of(main()).unit)}</b>
              <Show when={of(main()).notFinite > 0}><span class="problem">{of(main()).notFinite} values were not finite</span></Show>
              <span class="spread" />
              <button class="quiet" aria-pressed={params.scale === "log"} onClick={() => setParams({ scale: params.scale === "log" ? undefined : "log" }, { replace: true })}>Logarithmic</button>
              <button class="quiet" aria-pressed={by() === "time"} onClick={() => setParams({ by: by() === "time" ? undefined : "time" }, { replace: true })}>By time</button>
            </header>
            <Chart curve={of(main())} steps={steps(main())} log={params.scale === "log"} height={320} sync="job" />
          </div>
          <div class="small-charts">
            <For each={others()}>
              {(name) => (
                <div class="panel">
                  <header><h2><button class="link" onClick={() => setParams({ name }, { replace: true })}>{name}</button></h2><b class="newest">{value(of(name).newest, of(name).unit)}</b></header>
                  <Chart curve={of(name)} steps={steps(name)} log={false} height={130} sync="job" />
                </div>
              )}
            </For>
          </div>
          <Show when={all.data?.missing?.length}><div class="notice"><For each={all.data!.missing}>{(m) => <p>{m}</p>}</For></div></Show>
        </Show>
      </Show>
    </section>
  );
}
