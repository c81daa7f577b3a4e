import { useSearchParams } from "@solidjs/router";
import { For, Index, Show, createEffect, createMemo, createSignal, onCleanup, onMount, type JSX } from "solid-js";
import { client } from "../../app/console";
import { api, query } from "../../core/api";
import { parse } from "../../core/ansi";
import { bytes, count } from "../../core/format";
import { Lines, longest, type Line } from "../../core/lines";
import { follow } from "../../core/stream";
import type { Job } from "../../core/types";
import { Empty } from "../../parts/parts";

const height = 21;
const tail = 5000;
const together = 80; // milliseconds

/** JobLog follows what the tasks of a job print. What is searched and shown is in the address. */
export function JobLog(props: { job: Job }): JSX.Element {
  const [params, setParams] = useSearchParams<{ q?: string; rank?: string; attempt?: string; from?: string }>();
  const lines = new Lines();
  const [version, setVersion] = createSignal(0);
  const [state, setState] = createSignal<"connecting" | "following" | "ended">("connecting");
  const [problem, setProblem] = createSignal("");
  const [pinned, setPinned] = createSignal(true);
  const [whole, setWhole] = createSignal<Line | null>(null);
  const ranks = createMemo(() => props.job.tasks.map((t) => t.rank));
  const attempts = () => Array.from({ length: props.job.attempt }, (_, i) => i + 1);
  // Lines that come faster than somebody reads are shown together.
  let showing: ReturnType<typeof setTimeout> | undefined;
  const show = () => {
    showing ??= setTimeout(() => {
      showing = undefined;
      setVersion((v) => v + 1);
    }, together);
  };
  const id = () => props.job.job_id;
  createEffect(() => {
    const abort = new AbortController();
    const from = params.from === "start" ? undefined : tail;
    const path = `${api}/jobs/${encodeURIComponent(id())}/logs`;
    const [rank, attempt] = [params.rank ?? "", params.attempt ?? ""];
    lines.clear();
    setProblem("");
    setState("connecting");
    show();
    void follow({
      url: (lastId) => path + query({ rank, attempt, tail: lastId ? undefined : from }),
      headers: () => client.headers(),
      signal: abort.signal,
      open: (open) => setState(open ? "following" : "connecting"),
      event: (_, data) => {
        const e = JSON.parse(data) as { message: string; timestamp: string; rank: number; attempt: number; stream: string; level: string };
        lines.add({ text: e.message, at: e.timestamp, rank: e.rank, attempt: e.attempt, stream: e.stream, level: e.level });
        show();
      },
    }).then((end) => {
      if (abort.signal.aborted) return;
      setState("ended");
      if (end) setProblem(end.message);
    });
    onCleanup(() => abort.abort());
  });
  createEffect(() => {
    lines.search(params.q ?? "");
    show();
  });
  onCleanup(() => clearTimeout(showing));
  const size = () => (version(), lines.size);
  return (
    <section class="log" aria-label="Log">
      <form class="filters" onSubmit={(e) => e.preventDefault()}>
        <input type="search" data-filter aria-label="Search the log" placeholder="Search the log" value={params.q ?? ""} onInput={(e) => setParams({ q: e.currentTarget.value || undefined }, { replace: true })} />
        <Show when={ranks().length > 1}>
          <select aria-label="Rank" onChange={(e) => setParams({ rank: e.currentTarget.value || undefined }, { replace: true })}>
            <option value="">every rank</option>
            <For each={ranks()}>{(r) => <option value={r} selected={String(r) === params.rank}>rank {r}</option>}</For>
          </select>
        </Show>
        <Show when={attempts().length > 1}>
          <select aria-label="Attempt" onChange={(e) => setParams({ attempt: e.currentTarget.value || undefined }, { replace: true })}>
            <option value="">newest attempt</option>
            <For each={attempts()}>{(a) => <option value={a} selected={String(a) === params.attempt}>attempt {a}</option>}</For>
          </select>
        </Show>
        <button type="button" aria-pressed={params.from === "start"} onClick={() => setParams({ from: params.from === "start" ? undefined : "start" }, { replace: true })}>From the beginning</button>
        <button type="button" aria-pressed={pinned()} onClick={() => setPinned(!pinned())}>Follow</button>
        <p class="soft state" role="status" data-state={state()}>
          {count(size())} {params.q ? "match" : "lines"}<Show when={(version(), lines.dropped)}>, {count(lines.dropped)} earlier ones dropped</Show> ·{" "}
          {state() === "ended" ? "that is all" : state() === "following" ? "following" : "connecting"}
        </p>
      </form>
      <Show when={problem()}><p class="notice bad" role="alert">{problem()}</p></Show>
      <Show when={size() > 0 || state() !== "ended"} fallback={
        <Show when={params.q} fallback={<Empty line={`mind logs ${id()} -f`}>It has printed nothing.</Empty>}><div class="empty"><p>No line matches “{params.q}”.</p></div></Show>
      }>
        <View lines={lines} version={version()} pinned={pinned()} setPinned={setPinned} many={ranks().length > 1} open={setWhole} />
      </Show>
      <Show when={whole()}>{(l) => <Whole line={l()} close={() => setWhole(null)} />}</Show>
    </section>
  );
}

function View(props: { lines: Lines; version: number; pinned: boolean; setPinned: (on: boolean) => void; many: boolean; open: (l: Line) => void }): JSX.Element {
  let box: HTMLDivElement | undefined;
  const [top, setTop] = createSignal(0);
  const [room, setRoom] = createSignal(600);
  const size = () => (props.version, props.lines.size);
  const first = () => Math.max(0, Math.floor(top() / height) - 20);
  const shown = createMemo(() => (props.version, props.lines.slice(first(), first() + Math.ceil(room() / height) + 40)));
  onMount(() => {
    const seen = new ResizeObserver(([e]) => setRoom(e?.contentRect.height ?? 600));
    seen.observe(box!);
    onCleanup(() => seen.disconnect());
  });
  createEffect(() => {
    size();
    if (props.pinned) box!.scrollTop = box!.scrollHeight;
  });
  // Scrolling up stops following, and scrolling to the end begins it again.
  const scrolled = () => {
    const up = box!.scrollTop < top();
    const end = box!.scrollHeight - box!.scrollTop - box!.clientHeight < height * 2;
    setTop(box!.scrollTop);
    if (up && !end) props.setPinned(false);
    else if (end) props.setPinned(true);
  };
  return (
    <div class="lines-box" ref={(el) => (box = el)} onScroll={scrolled} tabindex="0" role="log" aria-live="off" aria-label="Lines">
      <div class="lines-all" style={{ height: `${size() * height}px` }}>
        <div class="lines-shown" style={{ transform: `translateY(${first() * height}px)` }}>
          <Index each={shown()}>{(l) => <One line={l()} many={props.many} open={props.open} />}</Index>
        </div>
      </div>
    </div>
  );
}

function One(props: { line: Line; many: boolean; open: (l: Line) => void }): JSX.Element {
  const l = () => props.line;
  const pieces = createMemo(() => parse(l().text.slice(0, longest)));
  return (
    <p class="line" classList={{ err: l().stream === "stderr", mind: l().level === "ERROR" && l().stream === "" }}>
      <time>{l().at.slice(11, 19)}</time>
      <Show when={props.many}><span class="rank">{l().rank}</span></Show>
      <span class="text">
        <For each={pieces()}>
          {(p) => (
            <Show when={p.href} fallback={<span class={p.look} style={p.colour ? { color: p.colour } : {}}>{p.text}</span>}>
              <a class={p.look} href={p.href} target="_blank" rel="noopener noreferrer">{p.text}</a>
            </Show>
          )}
        </For>
        <Show when={l().text.length > longest}><button class="quiet" onClick={() => props.open(l())}>… {bytes(l().text.length - longest)} more</button></Show>
      </span>
    </p>
  );
}

function Whole(props: { line: Line; close: () => void }): JSX.Element {
  let dialog: HTMLDialogElement | undefined;
  onMount(() => dialog?.showModal());
  return (
    <dialog class="wide" ref={(el) => (dialog = el)} onClose={() => props.close()} aria-labelledby="whole-title">
      <form method="dialog">
        <h2 id="whole-title">A line of {bytes(props.line.text.length)}</h2>
        <pre class="whole" tabindex="0">{parse(props.line.text).map((p) => p.text).join("")}</pre>
        <footer><button class="primary">Close</button></footer>
      </form>
    </dialog>
  );
}
