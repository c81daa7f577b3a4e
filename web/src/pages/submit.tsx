import { useNavigate } from "@solidjs/router";
import { For, Show, createMemo, createSignal, type JSX } from "solid-js";
import { createStore } from "solid-js/store";
import { client, may, queries, shared, useQuery } from "../app/console";
import { Problem, api } from "../core/api";
import { asYaml, blank, body, command, seconds, type Form } from "../core/request";
import { curl } from "../core/shell";
import type { Queue } from "../core/types";
import { Refusal } from "../parts/dialog";
import { Command, Copy, Failure, title } from "../parts/parts";

const remembered = "mind.submit";

/** Submit asks for a job, and writes the same as a command, as a file and as a request beside it. */
export function Submit(): JSX.Element {
  title(() => "Submit a job");
  const navigate = useNavigate();
  const [form, setForm] = createStore<Form>({ ...blank, ...last() });
  const [busy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const [way, setWay] = createSignal<"cli" | "yaml" | "curl">("cli");
  const queues = useQuery<{ queues: Queue[] }>(() => `${api}/queues`, 30_000, "name");
  const request = createMemo(() => body({ ...form }));
  const wrong = () => {
    if (!form.name.trim()) return "Give it a name.";
    if (!form.command.trim()) return "Say what it runs.";
    if (Number.isNaN(seconds(form.limit))) return "A time limit is such as 90, 30m or 2h.";
    return "";
  };
  const [tried, setTried] = createSignal(false);
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    setTried(true);
    if (wrong()) return;
    setBusy(true);
    setProblem(null);
    try {
      const { data } = await client.write<{ job_id: string }>("POST", `${api}/jobs`, request());
      localStorage.setItem(remembered, JSON.stringify({ cwd: form.cwd, type: form.type, queue: form.queue }));
      queries.refresh(`${api}/jobs`);
      navigate(`/jobs/${encodeURIComponent(data.job_id)}`);
    } catch (err) {
      setProblem(err instanceof Problem ? err : new Problem(0, "UNKNOWN", String(err)));
      setBusy(false);
    }
  };
  const field = (key: keyof Form) => ({
    id: `f-${key}`, value: form[key],
    onInput: (e: { currentTarget: { value: string } }) => setForm(key, e.currentTarget.value),
  });
  return (
    <div class="submit plain">
      <header class="head"><h1>Submit a job</h1></header>
      <Show when={may("scaimind:manage")} fallback={<Failure what="Submitting" problem={new Problem(403, "AUTHZ_PERMISSION_DENIED", "this needs the permission scaimind:manage")} />}>
        <div class="columns">
          <form class="panel form" onSubmit={(e) => void submit(e)} noValidate>
            <div class="wide"><label for="f-name">Name</label><input {...field("name")} autocomplete="off" aria-invalid={tried() && !form.name.trim() ? "true" : undefined} /></div>
            <div class="wide"><label for="f-command">Command</label><textarea {...field("command")} rows={4} spellcheck={false} placeholder="python train.py --epochs 3" aria-invalid={tried() && !form.command.trim() ? "true" : undefined} /></div>
            <div class="wide"><label for="f-cwd">Directory <span class="soft">on its node</span></label><input {...field("cwd")} autocomplete="off" spellcheck={false} /></div>
            <div><label for="f-gpus">GPUs <span class="soft">of all nodes</span></label><input {...field("gpus")} type="number" min="0" /></div>
            <div class="two">
              <label for="f-type">GPU type</label>
              <select {...field("type")} onChange={(e) => setForm("type", e.currentTarget.value)}>
                <option value="">any</option>
                <For each={shared.cluster.data?.gpu_types ?? []}>{(t) => <option value={t.gpu_type} selected={t.gpu_type === form.type}>{t.gpu_type}, {t.free} of {t.total} free</option>}</For>
              </select>
            </div>
            <div><label for="f-nodes">Nodes</label><input {...field("nodes")} type="number" min="1" /></div>
            <div>
              <label for="f-queue">Queue</label>
              <select {...field("queue")} onChange={(e) => setForm("queue", e.currentTarget.value)}>
                <For each={queues.data?.queues.map((q) => q.name) ?? [form.queue]}>{(q) => <option value={q} selected={q === form.queue}>{q}</option>}</For>
              </select>
            </div>
            <div><label for="f-priority">Priority <span class="soft">10 first</span></label><input {...field("priority")} type="number" min="0" max="10" /></div>
            <div><label for="f-retries">Retries</label><input {...field("retries")} type="number" min="0" /></div>
            <div><label for="f-limit">Time limit</label><input {...field("limit")} placeholder="none" /></div>
            <details class="wide">
              <summary>Labels and environment</summary>
              <div class="pair">
                <div><label for="f-labels">Labels <span class="soft">KEY=VALUE on each line</span></label><textarea {...field("labels")} rows={3} spellcheck={false} /></div>
                <div><label for="f-environment">Environment <span class="soft">KEY=VALUE on each line</span></label><textarea {...field("environment")} rows={3} spellcheck={false} /></div>
              </div>
            </details>
            <Show when={tried() && wrong()}><p class="problem wide" role="alert">{wrong()}</p></Show>
            <Show when={problem()}>{(p) => <div class="wide"><Refusal problem={p()} /></div>}</Show>
            <footer class="wide"><button class="primary" disabled={busy()}>{busy() ? "Submitting…" : "Submit"}</button></footer>
          </form>
          <aside class="panel ways">
            <header><h2>The same without this page</h2></header>
            <div class="chips" role="group" aria-label="Written as">
              <For each={[["cli", "Command"], ["yaml", "YAML"], ["curl", "curl"]] as const}>{([key, name]) => <button class="chip" aria-pressed={way() === key} onClick={() => setWay(key)}>{name}</button>}</For>
            </div>
            <Show when={way() === "cli"}><pre tabindex="0">{command({ ...form })}</pre><Copy text={command({ ...form })} /></Show>
            <Show when={way() === "yaml"}><pre tabindex="0">{asYaml(request())}</pre><div class="pairs"><Copy text={asYaml(request())} /><Command line="mind submit -f job.yaml" /></div></Show>
            <Show when={way() === "curl"}><pre tabindex="0">{curl("POST", `${api}/jobs`, request())}</pre><Copy text={curl("POST", `${api}/jobs`, request())} /></Show>
          </aside>
        </div>
      </Show>
    </div>
  );
}

function last(): Partial<Form> {
  try {
    return JSON.parse(localStorage.getItem(remembered) ?? "{}") as Partial<Form>;
  } catch {
    return {};
  }
}
