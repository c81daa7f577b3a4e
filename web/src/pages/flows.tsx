import { A, useNavigate } from "@solidjs/router";
import { For, Show, createSignal, type JSX } from "solid-js";
import { client, may, now, queries, useQuery } from "../app/console";
import { flowClient, flowsPath, listPath, type FlowPage } from "../core/flow/client";
import { blank } from "../core/flow/graph";
import type { FlowSummary } from "../core/flow/types";
import { ago, count } from "../core/format";
import { line } from "../core/shell";
import { Dialog } from "../parts/dialog";
import { Command, Empty, Shown, title } from "../parts/parts";

/** Flows lists the flows that one may see. */
export function Flows(): JSX.Element {
  title(() => "Flows");
  const navigate = useNavigate();
  const [text, setText] = createSignal("");
  const [making, setMaking] = createSignal(false);
  const [name, setName] = createSignal("");
  const [ending, setEnding] = createSignal<FlowSummary | null>(null);
  const flows = useQuery<FlowPage>(() => listPath(text()), 5000, "id", true);
  const edits = () => may("scaicore:manage") || may("scaicore:admin");
  const make = async () => {
    const made = await flowClient(client).create(name().trim(), "", blank(name().trim()));
    queries.refresh(flowsPath);
    navigate(`/flows/${encodeURIComponent(made.id)}`);
  };
  return (
    <div class="plain flows">
      <header class="head">
        <h1>Flows</h1>
        <Show when={flows.data}>{(d) => <span class="soft">{count(d().total)}</span>}</Show>
        <Show when={edits()}><button class="button primary" onClick={() => setMaking(true)}>New flow</button></Show>
      </header>
      <div class="filters"><input type="search" data-filter placeholder="Search by name" aria-label="Search flows by name" autocomplete="off" spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} /></div>
      <Shown of={flows} what="The list of flows">
        {(d) => (
          <Show when={d.items.length > 0} fallback={<Empty line={text() ? undefined! : "mind flow create -f flow.json"}>{text() ? "No flow is called so." : "No flows yet. A flow trains, evaluates, asks and decides; draw the first one."}</Empty>}>
            <div class="table">
              <table>
                <thead><tr><th>Name</th><th>Version</th><th>Owner</th><th>Changed</th><th><span class="hide">Actions</span></th></tr></thead>
                <tbody>
                  <For each={d.items}>
                    {(f) => (
                      <tr data-row>
                        <th scope="row"><A href={`/flows/${encodeURIComponent(f.id)}`}>{f.name}</A><Show when={f.description}><p class="why">{f.description}</p></Show></th>
                        <td>{f.version}</td><td>{f.owner_id}</td><td title={f.updated_at}>{ago(f.updated_at, now())}</td>
                        <td class="number"><Show when={edits() && (!f.level || f.level === "admin")}><button class="quiet" aria-label={`Delete ${f.name}`} onClick={() => setEnding({ ...f })}>Delete…</button></Show></td>
                      </tr>
                    )}
                  </For>
                </tbody>
              </table>
            </div>
          </Show>
        )}
      </Shown>
      <Command line="mind flow list" />
      <Show when={making()}>
        <Dialog title="New flow" button="Draw it" close={() => setMaking(false)} act={make}>
          <label for="flow-name">Name</label>
          <input id="flow-name" required maxlength={128} autocomplete="off" autofocus value={name()} onInput={(e) => setName(e.currentTarget.value)} />
        </Dialog>
      </Show>
      <Show when={ending()}>
        {(f) => (
          <Dialog title={`Delete ${f().name}?`} button="Delete the flow" danger close={() => setEnding(null)} command={line("mind", "flow", "delete", f().id)} act={async () => { await flowClient(client).remove(f().id); queries.refresh(flowsPath); }}>
            <p>Its versions are kept for 30 days. Its Core stays, and runs on.</p>
          </Dialog>
        )}
      </Show>
    </div>
  );
}
