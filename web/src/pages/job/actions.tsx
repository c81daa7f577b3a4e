import { For, Show, createSignal, type JSX } from "solid-js";
import { client, may, queries } from "../../app/console";
import { api, path } from "../../core/api";
import { line } from "../../core/shell";
import { verbs, type Verb } from "../../core/status";
import type { Job } from "../../core/types";
import { Dialog } from "../../parts/dialog";

const says: Record<Verb, { does: string; button: string }> = {
  cancel: { does: "Its processes get their grace period and are stopped for good. Its checkpoints stay.", button: "Cancel the job" },
  pause: { does: "It saves a checkpoint if it can, gives its GPUs back, and can continue later.", button: "Pause" },
  resume: { does: "It waits for GPUs again and continues from its newest complete checkpoint.", button: "Resume" },
  retry: { does: "It runs once more under the same id, and all its counts begin again.", button: "Retry" },
};

/** Actions are what may be done with a job in its status. */
export function Actions(props: { job: Job }): JSX.Element {
  const [asked, setAsked] = createSignal<Verb | null>(null);
  const [reason, setReason] = createSignal("");
  const command = (verb: Verb) => line("mind", verb, props.job.job_id, ...(verb === "cancel" && reason() ? ["--reason", reason()] : []));
  const act = async (verb: Verb) => {
    await client.write("POST", path("jobs", props.job.job_id, verb), verb === "cancel" && reason() ? { reason: reason() } : {});
    queries.refresh(`${api}/jobs`);
    queries.refresh(`${api}/queue`);
  };
  return (
    <div class="actions">
      <Show when={may("scaimind:manage")} fallback={<span class="soft">Changing it takes scaimind:manage</span>}>
        <For each={verbs(props.job.status, props.job.stopping)}>
          {(verb) => <button data-verb={verb} onClick={() => setAsked(verb)}>{verb[0]!.toUpperCase() + verb.slice(1)}</button>}
        </For>
      </Show>
      <Show when={asked()} keyed>
        {(verb) => (
          <Dialog title={`${verb[0]!.toUpperCase() + verb.slice(1)} ${props.job.name || props.job.job_id}?`} close={() => setAsked(null)}
            command={command(verb)} button={says[verb].button} danger={verb === "cancel"} act={() => act(verb)}>
            <p>{says[verb].does}</p>
            <Show when={verb === "cancel"}>
              <label for="reason">Reason <span class="soft">(kept with the job and in the audit log)</span></label>
              <input id="reason" value={reason()} onInput={(e) => setReason(e.currentTarget.value)} autocomplete="off" />
            </Show>
          </Dialog>
        )}
      </Show>
    </div>
  );
}
