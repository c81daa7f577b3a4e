import { For, Show, createSignal, onMount, type JSX } from "solid-js";
import { Problem } from "../core/api";
import { Command } from "./parts";

/** Dialog asks before something is done, says the command that does the same, and what came of it if it failed. */
export function Dialog(props: {
  title: string;
  close: () => void;
  command?: string;
  button: string;
  danger?: boolean;
  act: () => Promise<void>;
  children: JSX.Element;
}): JSX.Element {
  let dialog: HTMLDialogElement | undefined;
  const [busy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Problem | null>(null);
  onMount(() => dialog?.showModal());
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await props.act();
      dialog?.close();
    } catch (err) {
      setProblem(err instanceof Problem ? err : new Problem(0, "UNKNOWN", String(err)));
      setBusy(false);
    }
  };
  return (
    <dialog ref={(el) => (dialog = el)} aria-labelledby="dialog-title" onClose={() => props.close()}>
      <form onSubmit={(e) => void submit(e)}>
        <h2 id="dialog-title">{props.title}</h2>
        {props.children}
        <Show when={problem()}>{(p) => <Refusal problem={p()} />}</Show>
        <Show when={props.command}>{(l) => <Command line={l()} />}</Show>
        <footer>
          <button type="button" onClick={() => dialog?.close()}>Leave it</button>
          <button class={props.danger ? "danger" : "primary"} disabled={busy()}>{busy() ? "Working…" : props.button}</button>
        </footer>
      </form>
    </dialog>
  );
}

/** Refusal says why something was not done. */
export function Refusal(props: { problem: Problem }): JSX.Element {
  return (
    <div class="notice bad" role="alert">
      <p class="lines">{props.problem.message}</p>
      <Show when={props.problem.details.length > 0}>
        <ul><For each={props.problem.details}>{(d) => <li><code>{d.field}</code> {d.message}</li>}</For></ul>
      </Show>
    </div>
  );
}
