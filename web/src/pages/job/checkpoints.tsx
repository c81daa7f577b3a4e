import { For, Show, createSignal, type JSX } from "solid-js";
import { client, may, now, queries, useQuery } from "../../app/console";
import { Problem, path } from "../../core/api";
import { ago, bytes, count } from "../../core/format";
import type { Checkpoint, Job } from "../../core/types";
import { Refusal } from "../../parts/dialog";
import { Command, Empty, Shown } from "../../parts/parts";

/** JobCheckpoints lists what a job can continue from. */
export function JobCheckpoints(props: { job: Job }): JSX.Element {
  const where = () => path("jobs", props.job.job_id, "checkpoints");
  const all = useQuery<{ checkpoints: Checkpoint[] }>(where, 5000, "checkpoint_id");
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const pin = async (c: Checkpoint) => {
    setProblem(null);
    try {
      await client.write("POST", path("checkpoints", c.checkpoint_id, c.pinned ? "unpin" : "pin"), {});
    } catch (err) {
      if (err instanceof Problem) setProblem(err);
    }
    queries.refresh(where());
  };
  const best = (c: Checkpoint) => Object.entries(c.metrics ?? {}).filter(([, v]) => typeof v === "number").slice(0, 2).map(([k, v]) => `${k} ${(v as number).toPrecision(4)}`).join(", ");
  return (
    <section aria-label="Checkpoints">
      <Show when={problem()}>{(p) => <Refusal problem={p()} />}</Show>
      <Shown of={all} what="The list of checkpoints">
        {(d) => (
          <Show when={d.checkpoints.length > 0} fallback={<Empty line={`mind checkpoints ${props.job.job_id}`}>It has saved no checkpoint. What it saves below MIND_CHECKPOINT_DIR, and reports, appears here.</Empty>}>
            <div class="panel scroll" tabindex="0" role="region" aria-label="Checkpoints">
              <table>
                <thead><tr><th scope="col">Checkpoint</th><th scope="col" class="number">Step</th><th scope="col">State</th><th scope="col" class="number">Size</th><th scope="col">Node</th><th scope="col">Metrics</th><th scope="col">Saved</th><th scope="col">Keep</th></tr></thead>
                <tbody>
                  <For each={[...d.checkpoints].sort((a, b) => b.step - a.step)}>
                    {(c) => (
                      <tr>
                        <th scope="row"><span class="id">{c.checkpoint_id}</span></th>
                        <td class="number">{count(c.step)}</td>
                        <td>{c.state.toLowerCase()}<Show when={c.uploaded_bytes > 0 && c.uploaded_bytes < c.size_bytes}> <span class="soft">{bytes(c.uploaded_bytes)} archived</span></Show><Show when={c.reason}><span class="why"> {c.reason}</span></Show></td>
                        <td class="number">{bytes(c.size_bytes)}</td>
                        <td>{c.node_id}</td>
                        <td class="soft">{best(c)}</td>
                        <td class="soft">{ago(c.created_at, now())}</td>
                        <td><Show when={may("scaimind:manage")} fallback={c.pinned ? "pinned" : ""}><button class="quiet" aria-pressed={c.pinned} onClick={() => void pin(c)}>{c.pinned ? "Pinned" : "Pin"}</button></Show></td>
                      </tr>
                    )}
                  </For>
                </tbody>
              </table>
            </div>
            <Command line={`mind checkpoint pull ${[...d.checkpoints].sort((a, b) => b.step - a.step)[0]!.checkpoint_id}`} />
          </Show>
        )}
      </Shown>
    </section>
  );
}
