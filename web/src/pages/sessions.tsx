import { For, Show, createSignal, type JSX } from "solid-js";
import { client, now, queries, session, useQuery } from "../app/console";
import { ago, ahead } from "../core/format";
import { browserOf } from "../core/browsers";
import { line } from "../core/shell";
import { Dialog } from "../parts/dialog";
import { Command, Shown, title } from "../parts/parts";

interface Listed {
  session_id: string;
  user_id: string;
  created_at: string;
  expires_at: string;
  last_used_at: string | null;
  address: string;
  user_agent: string;
  current: boolean;
}

/** Sessions lists where the user is signed in, and ends what should not be. */
export function Sessions(): JSX.Element {
  title(() => "Sessions");
  const all = useQuery<{ sessions: Listed[] }>(() => "/v1/sessions", 10_000, "session_id");
  const [ending, setEnding] = createSignal<Listed | null>(null);
  const end = async (s: Listed) => {
    await client.write("DELETE", `/v1/sessions/${encodeURIComponent(s.session_id)}`);
    queries.refresh("/v1/sessions");
  };
  return (
    <div class="plain">
      <header class="head"><h1>Sessions</h1><p class="soft">where {session()?.user_id} is signed in</p></header>
      <Shown of={all} what="The list of sessions">
        {(d) => (
          <div class="table">
            <table>
              <thead><tr><th scope="col">Session</th><th scope="col">Browser</th><th scope="col">From</th><th scope="col">Signed in</th><th scope="col">Last used</th><th scope="col">Ends by itself</th><th scope="col">End it</th></tr></thead>
              <tbody>
                <For each={d.sessions}>
                  {(s) => (
                    <tr data-row>
                      <th scope="row"><span class="id">{s.session_id}</span> <Show when={s.current}><span class="tag">this one</span></Show></th>
                      <td title={s.user_agent}>{browserOf(s.user_agent)}</td>
                      <td class="soft">{s.address}</td>
                      <td class="soft">{ago(s.created_at, now())}</td>
                      <td class="soft">{s.current ? "now" : ago(s.last_used_at, now())}</td>
                      <td class="soft">{ahead(s.expires_at, now())}</td>
                      <td><button class="quiet" onClick={() => setEnding(s)} aria-label={`End ${s.session_id}`}>End</button></td>
                    </tr>
                  )}
                </For>
              </tbody>
            </table>
          </div>
        )}
      </Shown>
      <Command line="mind session list" />
      <Show when={ending()} keyed>
        {(s) => (
          <Dialog title={`End ${s.session_id}?`} close={() => setEnding(null)} command={line("mind", "session", "revoke", s.session_id)} button="End the session" danger act={() => end(s)}>
            <p>{s.current ? "This is the session of this browser: you are signed out." : "Whoever uses it is signed out within a second."}</p>
          </Dialog>
        )}
      </Show>
    </div>
  );
}
