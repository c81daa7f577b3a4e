import { For, Show, createSignal, type JSX } from "solid-js";
import { client, may, now, queries, useQuery } from "../../app/console";
import type { Problem } from "../../core/api";
import { corePath, coresPath } from "../../core/flow/client";
import type { Decision } from "../../core/flow/run";
import { ahead } from "../../core/format";
import { line } from "../../core/shell";
import { Refusal } from "../../parts/dialog";
import { Command, Shown } from "../../parts/parts";
import { Value } from "./result";
import { problemOf } from "./saving";

/** Answer asks what a run asks, and sends the answer. */
export function Answer(props: { id: string }): JSX.Element {
  const decision = useQuery<Decision>(() => corePath("checkpoints", props.id), 5000, "id");
  const [comment, setComment] = createSignal("");
  const [text, setText] = createSignal("");
  const [busy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  const allowed = () => may("scaicore:checkpoint_resolve") || may("scaicore:admin");
  const send = async (body: Record<string, unknown>) => {
    setBusy(true);
    setProblem(null);
    try {
      const digest = decision.data?.subject_digest;
      await client.write("POST", corePath("checkpoints", props.id, "resolve"), { ...body, ...(comment().trim() ? { comment: comment().trim() } : {}), ...(digest ? { subject_digest: digest } : {}) });
      queries.refresh(coresPath);
    } catch (err) {
      setProblem(problemOf(err));
      setBusy(false);
    }
  };
  const typed = (d: Decision) => {
    if (!d.schema) return void send({ resolution: text().trim() });
    try {
      void send({ data: JSON.parse(text()) as unknown });
    } catch (err) {
      setProblem(problemOf(new Error(`This is no JSON: ${(err as Error).message}`)));
    }
  };
  return (
    <section class="panel answer" aria-label="Question">
      <Shown of={decision} what="The question" rows={2}>
        {(d) => (
          <Show when={d.status === "pending"} fallback={<p>Answered: <b>{d.resolution || d.status}</b></p>}>
            <h2 class="lines">{d.prompt}</h2>
            <p class="hint">{d.assignee_raw ? `For ${d.assignee_raw}. ` : ""}{d.expires_at ? `It expires ${ahead(d.expires_at, now())}.` : ""}</p>
            <Value name="Shown with it" value={d.context} />
            <Show when={allowed()} fallback={<p class="notice">Answering takes the permission <code>scaicore:checkpoint_resolve</code>.</p>}>
              <Show when={d.options.length === 0}>
                <div class="field"><label for="answer-text">Answer <Show when={d.schema}><span class="soft">JSON</span></Show></label><textarea id="answer-text" rows={3} value={text()} onInput={(e) => setText(e.currentTarget.value)} /></div>
              </Show>
              <div class="field"><label for="answer-comment">Comment <span class="soft">if you like</span></label><input id="answer-comment" autocomplete="off" value={comment()} onInput={(e) => setComment(e.currentTarget.value)} /></div>
              <div class="buttons">
                <For each={d.options}>{(o) => <button type="button" class="primary" disabled={busy()} onClick={() => void send({ resolution: o.id })}>{o.label || o.id}</button>}</For>
                <Show when={d.options.length === 0}><button type="button" class="primary" disabled={busy() || !text().trim()} onClick={() => typed(d)}>Answer</button></Show>
              </div>
            </Show>
            <Show when={problem()}>{(p) => <Refusal problem={p()} />}</Show>
            <Command line={line("mind", "decision", "resolve", d.id, d.options[0]?.id ?? "ANSWER")} />
          </Show>
        )}
      </Shown>
    </section>
  );
}
