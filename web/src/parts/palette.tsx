import { useNavigate } from "@solidjs/router";
import { For, Show, createMemo, createSignal, onMount, type JSX } from "solid-js";
import { signOut, useQuery } from "../app/console";
import { setTheme } from "../app/settings";
import { openHelp } from "../app/keyboard";
import { api, query } from "../core/api";
import { places } from "../core/keys";
import { line } from "../core/shell";
import type { Job, JobPage, Node } from "../core/types";
import { Status } from "./parts";

interface Item {
  name: string;
  group: string;
  command?: string;
  job?: Job;
  run: () => void;
}

const commands: Record<string, string> = { "/": "mind top", "/jobs": "mind jobs", "/queue": "mind queue", "/nodes": "mind nodes", "/flows": "mind flow list", "/cluster": "mind coordinators", "/submit": "mind submit" };

/** Palette finds places, jobs, nodes and actions by typing, and says the command that does the same. */
export function Palette(props: { close: () => void }): JSX.Element {
  let dialog: HTMLDialogElement | undefined;
  const navigate = useNavigate();
  const [text, setText] = createSignal("");
  const [at, setAt] = createSignal(0);
  const jobs = useQuery<JobPage>(() => `${api}/jobs${query({ search: text().trim(), page_size: 6, fields: "job_id,name,status,stopping" })}`, 60_000, "job_id", true);
  const nodes = useQuery<{ nodes: Node[] }>(() => (text().trim() ? `${api}/cluster/nodes` : null), 60_000, "node_id");
  onMount(() => dialog?.showModal());
  const go = (to: string) => () => navigate(to);
  // The buttons of the page that one is on are its actions.
  const here = [...document.querySelectorAll<HTMLButtonElement>("[data-verb]")].map((b): Item => ({
    name: `${b.textContent} this job`, group: "Here", command: line("mind", b.dataset["verb"]!, decodeURIComponent(location.pathname.split("/")[3] ?? "")), run: () => b.click(),
  }));
  const fixed: Item[] = [
    ...here,
    ...Object.values(places).map(([to, name]): Item => ({ name, group: "Places", ...(commands[to] ? { command: commands[to] } : {}), run: go(to) })),
    { name: "Keys", group: "Console", run: openHelp },
    { name: "Light theme", group: "Console", run: () => setTheme("light") },
    { name: "Dark theme", group: "Console", run: () => setTheme("dark") },
    { name: "Theme of the system", group: "Console", run: () => setTheme("system") },
    { name: "Sign out", group: "Console", run: () => void signOut() },
  ];
  const items = createMemo(() => {
    const q = text().trim().toLowerCase();
    const match = (i: Item) => q.split(/\s+/).every((w) => `${i.name} ${i.command ?? ""}`.toLowerCase().includes(w));
    const found = (jobs.data?.jobs ?? []).map((j): Item => ({ name: j.name || j.job_id, group: "Jobs", job: j, command: line("mind", "job", j.job_id), run: go(`/jobs/${encodeURIComponent(j.job_id)}`) }));
    const machines = q ? (nodes.data?.nodes ?? []).filter((n) => n.node_id.toLowerCase().includes(q)).slice(0, 4) : [];
    return [
      ...fixed.filter(match),
      ...found,
      ...machines.map((n): Item => ({ name: n.node_id, group: "Nodes", command: line("mind", "nodes", n.node_id), run: go(`/nodes/${encodeURIComponent(n.node_id)}`) })),
    ];
  });
  const run = (i: Item | undefined) => {
    if (!i) return;
    dialog?.close();
    i.run();
  };
  const keys = (e: KeyboardEvent) => {
    const n = items().length;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      setAt((at() + (e.key === "ArrowDown" ? 1 : n - 1)) % Math.max(1, n));
      document.getElementById(`palette-${at()}`)?.scrollIntoView({ block: "nearest" });
    } else if (e.key === "Enter") {
      e.preventDefault();
      run(items()[at()]);
    }
  };
  return (
    <dialog class="palette" ref={(el) => (dialog = el)} onClose={() => props.close()} onClick={(e) => e.target === dialog && dialog?.close()} aria-label="Find places, jobs and actions">
      <input role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={items().length > 0 ? `palette-${at()}` : undefined} aria-label="Find places, jobs and actions"
        placeholder="Find places, jobs and actions" autofocus autocomplete="off" spellcheck={false} onKeyDown={keys} onInput={(e) => { setText(e.currentTarget.value); setAt(0); }} />
      <ul id="palette-list" role="listbox" aria-label="Found">
        <For each={items()} fallback={<li class="soft" role="presentation">Nothing is called so.</li>}>
          {(i, n) => (
            <li id={`palette-${n()}`} role="option" aria-selected={n() === at()} onMouseMove={() => setAt(n())} onClick={() => run(i)}>
              <span class="group">{n() === 0 || items()[n() - 1]?.group !== i.group ? i.group : ""}</span>
              <b>{i.name}</b>
              <Show when={i.job}>{(j) => <Status status={j().status} stopping={j().stopping} />}</Show>
              <code>{i.command}</code>
            </li>
          )}
        </For>
      </ul>
    </dialog>
  );
}
