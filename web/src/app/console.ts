// What all pages share: who is signed in, the client, the answers that are kept, and how the cluster is.
import { batch, createEffect, createMemo, createRoot, createSignal, onCleanup, untrack, type Accessor } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { Client, Problem, api, query } from "../core/api";
import { says, type Saying } from "../core/events";
import { Queries, type Entry } from "../core/queries";
import { follow } from "../core/stream";
import type { Cluster, ClusterEvent, Replicas, Session } from "../core/types";
import { verdict as judge } from "../core/verdict";

const [session, setSession] = createSignal<Session | null | undefined>(undefined);
const [now, setNow] = createSignal(Date.now());
const [index, setIndex] = createSignal(0);
const [answeredAt, setAnsweredAt] = createSignal(0);
const [silentSince, setSilentSince] = createSignal<number | null>(null);
const [leaderlessSince, setLeaderlessSince] = createSignal<number | null>(null);

/** session is who is signed in; null: nobody, undefined: not known yet. */
export { session, now, index, answeredAt, leaderlessSince };

export const client = new Client({
  answered(i) {
    batch(() => {
      setAnsweredAt(Date.now());
      setSilentSince(null);
      if (i > index()) setIndex(i);
    });
  },
  silent: () => setSilentSince((s) => s ?? Date.now()),
  unauthorized: () => session() !== undefined && signedOut(),
  leaderless: () => leaderlessSince() !== null,
});

export const queries = new Queries((path, signal) => client.get(path, { signal }));

function signedOut(): void {
  setSession(null);
  queries.clear();
}

/** signIn exchanges a token for a session of this browser. The token is not kept. */
export async function signIn(token: string): Promise<void> {
  client.token = token;
  try {
    setSession((await client.write<Session>("POST", "/v1/session")).data);
  } finally {
    client.token = "";
  }
  queries.clear();
}

/** signOut ends the session. The gateway takes the cookie away with any answer; without an answer the browser still has it. */
export async function signOut(): Promise<void> {
  try {
    await client.write("DELETE", "/v1/session");
  } catch (err) {
    if (err instanceof Problem && err.status === 0) {
      setStaying("Not signed out: the gateway does not answer. Try again.");
      return;
    }
    if (err instanceof Problem && err.status !== 401) {
      setLeaving(`This browser is signed out. The session itself could not be ended (${err.message}): end it on the page of sessions, or with mind session revoke.`);
    }
  }
  setStaying("");
  signedOut();
}

/** staying says why the user is still signed in, leaving what is left to do after signing out. */
const [staying, setStaying] = createSignal("");
const [leaving, setLeaving] = createSignal("");
export { staying, leaving };

/** Offer is a token of the address that is not used without asking: it would sign the user in as somebody else. */
export interface Offer {
  token: string;
  who: { user_id: string; tenant_id: string };
  /** The session that the browser has; null: none. */
  current: Session | null;
}

const [offer, setOffer] = createSignal<Offer | null>(null);
export { offer };

/** decline leaves everything as it was. */
export function decline(): void {
  const current = offer()?.current ?? null;
  setOffer(null);
  setSession(current);
}

/** accept signs in with the token of the address. */
export async function accept(): Promise<void> {
  const o = offer();
  if (!o) return;
  await signIn(o.token);
  setOffer(null);
}

async function current(): Promise<Session | null> {
  try {
    return (await client.get<Session>("/v1/session")).data;
  } catch (err) {
    if (err instanceof Problem && err.status === 401) return null;
    throw err;
  }
}

async function owner(token: string): Promise<Offer["who"]> {
  client.token = token;
  try {
    return (await client.get<Offer["who"]>("/v1/me")).data;
  } finally {
    client.token = "";
  }
}

const here = () => ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/**
 * begin finds out who is signed in. A token in the fragment of the address is taken out of the address. It is used at once on
 * the user's own machine (mind dev), if nobody is signed in. Elsewhere the page asks: a link must not sign anybody in as
 * somebody else.
 */
export async function begin(): Promise<string> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(history.state, "", location.pathname + location.search);
  try {
    const have = await current();
    if (!token) {
      setSession(have);
      return "";
    }
    const who = await owner(token);
    if (have && have.user_id === who.user_id && have.tenant_id === who.tenant_id) {
      setSession(have);
    } else if (!have && here()) {
      await signIn(token);
    } else {
      setOffer({ token, who, current: have });
      setSession(null);
    }
    return "";
  } catch (err) {
    setSession(null);
    return err instanceof Error ? err.message : String(err);
  }
}

export const may = (permission: string) => session()?.permissions.includes(permission) ?? false;

/** useQuery shows what is known of a path, and keeps it fresh while the page that asks is shown. */
export function useQuery<T extends object>(path: () => string | null, every = 5000, key = "job_id", keep = false): Entry<T> {
  const [entry, setEntry] = createStore<Entry<T>>({ data: undefined, error: undefined, at: 0, index: 0, loading: true });
  createEffect(() => {
    const asked = path();
    if (!asked || !session()) return;
    const tell = (e: Entry<T>) =>
      batch(() => {
        setEntry({ error: e.error, at: e.at, index: e.index, loading: e.loading });
        if (e.data !== undefined || !keep) setEntry("data", reconcile(e.data as T, { key }));
      });
    onCleanup(queries.watch<T>(asked, every, (e) => untrack(() => tell(e))));
  });
  return entry;
}

/** useRaw is useQuery for large answers, of which every part changes: nothing is compared. */
export function useRaw<T extends object>(path: () => string | null, every = 5000): Accessor<Entry<T>> {
  const [entry, setEntry] = createSignal<Entry<T>>({ data: undefined, error: undefined, at: 0, index: 0, loading: true });
  createEffect(() => {
    const asked = path();
    if (!asked || !session()) return;
    onCleanup(queries.watch<T>(asked, every, (e) => untrack(() => setEntry(e))));
  });
  return entry;
}

/** shared are the answers that the frame of every page shows. */
export const shared = createRoot(() => {
  const cluster = useQuery<Cluster>(() => `${api}/cluster?consistency=stale`, 2000, "id");
  const replicas = useQuery<Replicas>(() => `${api}/cluster/coordinators`, 5000, "id");
  createEffect(() => {
    if (!cluster.data) return;
    const leader = cluster.data.leader;
    setLeaderlessSince((s) => (leader ? null : (s ?? Date.now())));
  });
  const verdict = createMemo(() =>
    judge({
      cluster: cluster.data, replicas: replicas.data, now: now(),
      leaderlessSince: leaderlessSince(), silentSince: silentSince(),
    }),
  );
  return { cluster, replicas, verdict };
});

const [events, setEvents] = createSignal<{ event: ClusterEvent; said: Saying }[]>([]);
const [connected, setConnected] = createSignal(false);

/** events are the newest changes that are worth a sentence, newest first. */
export { events, connected };

const remembered = 50;

// What changed is asked for again soon, once for many changes, and not more often than somebody can read it.
const soon = 200;
const seldom = 1000;
let refreshedAt = 0;
const stale = new Set<string>();
let refreshing: ReturnType<typeof setTimeout> | undefined;
const touched: Record<string, string[]> = {
  job: ["/jobs", "/queue", "/cluster"],
  lease: ["/cluster"],
  node: ["/cluster"],
  coordinator: ["/cluster"],
  checkpoint: [],
  queue: ["/queue"],
};

function changed(e: ClusterEvent): void {
  for (const part of touched[e.topic] ?? []) stale.add(`${api}${part}`);
  if (e.topic === "core" || e.topic === "execution" || e.topic === "decision") stale.add("/v1/modules/scaicore");
  if (e.topic === "flow") stale.add("/v1/flows");
  if (e.checkpoint_id && e.job_id) stale.add(`${api}/jobs/${e.job_id}/checkpoints`);
  refreshing ??= setTimeout(() => {
    refreshing = undefined;
    refreshedAt = Date.now();
    for (const prefix of stale) queries.refresh(prefix);
    stale.clear();
  }, Math.max(soon, refreshedAt + seldom - Date.now()));
}

// How many log entries before now the list of events begins.
const earlier = 3000;

async function watchEvents(signal: AbortSignal): Promise<void> {
  const before = await client.get(`${api}/cluster?consistency=stale`, { signal }).catch(() => ({ index: 0 }));
  let since: number | undefined = Math.max(0, before.index - earlier);
  while (!signal.aborted) {
    const problem = await follow({
      url: (lastId) => `${api}/events${query({ since_index: lastId ? undefined : since })}`,
      headers: () => client.headers(),
      signal,
      open: setConnected,
      event: (_, data) => {
        const e = JSON.parse(data) as ClusterEvent;
        const said = says(e);
        if (said) setEvents((all) => [{ event: e, said }, ...all].slice(0, remembered));
        if (e.index > index()) setIndex(e.index);
        if (e.index > before.index) changed(e);
      },
    });
    setConnected(false);
    if (problem?.code === "AUTH_TOKEN_INVALID") return;
    // The stream begins again from now, and so does everything that it kept fresh.
    since = undefined;
    queries.refresh(api);
    await new Promise((done) => setTimeout(done, 2000));
  }
}

/** live runs what goes on while the console is open: the clock, and the stream of events while somebody is signed in. */
export function live(): void {
  setInterval(() => !document.hidden && setNow(Date.now()), 1000);
  document.addEventListener("visibilitychange", () => {
    queries.setActive(!document.hidden);
    if (!document.hidden) setNow(Date.now());
  });
  createEffect<AbortController | undefined>((before) => {
    before?.abort();
    setEvents([]);
    if (!session()) return undefined;
    const abort = new AbortController();
    void watchEvents(abort.signal);
    return abort;
  });
}
