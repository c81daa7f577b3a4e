import { A } from "@solidjs/router";
import { For, Show, createSignal, onMount, type JSX } from "solid-js";
import type { Problem } from "../core/api";
import { kindOf, nodeKinds } from "../core/status";
import { Shape } from "./icons";

/** title names the page in the browser. */
export function title(name: () => string): void {
  onMount(() => (document.title = `${name()} · Mind`));
}

/** Status writes the status of a job with its shape. */
export function Status(props: { status: string; stopping?: string | null }): JSX.Element {
  return (
    <span class={`status ${kindOf(props.status)}`}>
      <Shape kind={kindOf(props.status)} />
      {props.stopping ? `${props.status.toLowerCase()}, stopping` : props.status.toLowerCase()}
    </span>
  );
}

export function NodeStatus(props: { state: string }): JSX.Element {
  const kind = () => nodeKinds[props.state] ?? "stopped";
  return <span class={`status ${kind()}`}><Shape kind={kind()} />{props.state.toLowerCase()}</span>;
}

export function JobLink(props: { id: string; name?: string | undefined }): JSX.Element {
  return <A classList={{ id: !props.name }} href={`/jobs/${encodeURIComponent(props.id)}`}>{props.name || props.id}</A>;
}

/** Copy puts a text where it can be pasted from. */
export function Copy(props: { text: string; quiet?: boolean; failed?: () => void }): JSX.Element {
  const [copied, setCopied] = createSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(props.text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      props.failed?.();
    }
  };
  return <button type="button" classList={{ quiet: !!props.quiet, copy: true }} onClick={() => void copy()} aria-label={props.quiet ? `Copy: ${props.text}` : undefined}>{copied() ? "Copied" : "Copy"}</button>;
}

/** Command is the line of the command line that does or shows the same, to be copied. */
export function Command(props: { line: string; label?: string }): JSX.Element {
  let text: HTMLElement | undefined;
  return (
    <div class="command">
      <code ref={(el) => (text = el)} tabindex="0" role="textbox" aria-readonly="true" aria-label={props.label ?? "On the command line"}>{props.line}</code>
      <Copy quiet text={props.line} failed={() => getSelection()?.selectAllChildren(text!)} />
    </div>
  );
}

/** Empty says that there is nothing, and what makes something. */
export function Empty(props: { children: JSX.Element; line?: string }): JSX.Element {
  return (
    <div class="empty">
      <p>{props.children}</p>
      <Show when={props.line}>{(l) => <Command line={l()} />}</Show>
    </div>
  );
}

/** Loading is what is shown before the first answer: never something that looks empty. */
export function Loading(props: { rows?: number }): JSX.Element {
  return (
    <div class="loading" role="status" aria-label="Loading">
      <For each={Array.from({ length: props.rows ?? 3 })}>{() => <span />}</For>
    </div>
  );
}

/** Failure says what went wrong, and names what a permission hides. */
export function Failure(props: { problem: Problem; what: string }): JSX.Element {
  return (
    <Show when={props.problem.missing} fallback={
      <div class="notice bad" role="alert">
        <p><b>{props.what} cannot be shown.</b> {props.problem.message}</p>
        <Show when={props.problem.requestId}>{(id) => <p class="hint">Request <code>{id()}</code></p>}</Show>
      </div>
    }>
      {(missing) => (
        <div class="notice">
          <p><b>{props.what} is hidden from you.</b> It takes the permission <code>{missing()}</code>; who has cluster_admin makes a token with it:</p>
          <Command line={`mind token create --permission ${missing().split(" ")[0]}`} />
        </div>
      )}
    </Show>
  );
}

/** Shown is an answer in whichever state it is: loading, failed, old, or there. */
export function Shown<T>(props: {
  of: { data: T | undefined; error: Problem | undefined };
  what: string;
  rows?: number;
  children: (data: T) => JSX.Element;
}): JSX.Element {
  return (
    <Show when={props.of.data} fallback={
      <Show when={props.of.error} fallback={<Loading rows={props.rows ?? 3} />}>
        {(p) => <Failure problem={p()} what={props.what} />}
      </Show>
    }>
      {(d) => props.children(d())}
    </Show>
  );
}

/** Fact is a term and what it is. */
export function Fact(props: { name: string; children: JSX.Element }): JSX.Element {
  return <div><dt>{props.name}</dt><dd>{props.children}</dd></div>;
}
