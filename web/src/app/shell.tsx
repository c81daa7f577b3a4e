import { A, useLocation } from "@solidjs/router";
import { ErrorBoundary, Show, Suspense, createEffect, createSignal, type JSX } from "solid-js";
import { answeredAt, index, live, now, session, shared, signOut, staying } from "./console";
import { count, duration } from "../core/format";
import { SignIn } from "../pages/signin";
import { Mark } from "../parts/icons";
import { Keyboard, openHelp, openPalette } from "./keyboard";
import { setTheme, theme, type Theme } from "./settings";

/** Shell is the frame of every page: where one is, how the cluster is, who one is. */
export function Shell(props: { started: Promise<string>; children?: JSX.Element }): JSX.Element {
  const [refused, setRefused] = createSignal("");
  live();
  void props.started.then(setRefused);
  return (
    <Show when={session() !== undefined} fallback={<header class="top" aria-busy="true"><Mark /></header>}>
      <Show when={session()} fallback={<SignIn refused={refused()} />}>
        <Frame>{props.children}</Frame>
      </Show>
    </Show>
  );
}

const places = [
  ["/", "Overview"],
  ["/jobs", "Jobs"],
  ["/queue", "Queue"],
  ["/nodes", "Nodes"],
  ["/flows", "Flows"],
  ["/cluster", "Cluster"],
] as const;

function Frame(props: { children?: JSX.Element }): JSX.Element {
  const location = useLocation();
  let main: HTMLElement | undefined;
  createEffect<string>((before) => {
    const path = location.pathname;
    // A reader with a screen reader is taken to the new page.
    if (before !== undefined && before.split("/")[2] !== path.split("/")[2]) main?.focus({ preventScroll: true });
    return path;
  });
  return (
    <>
      <a class="skip" href="#main">Skip to the page</a>
      <header class="top">
        <A class="mark" href="/" aria-label="Mind, overview"><Mark />Mind</A>
        <nav aria-label="Pages">
          {places.map(([href, name]) => <A href={href} end={href === "/"}>{name}</A>)}
        </nav>
        <button class="find" onClick={openPalette} aria-keyshortcuts="Control+K"><span>Find</span><kbd>Ctrl K</kbd></button>
        <Pulse />
        <button class="quiet who" popovertarget="account">{session()?.user_id || "user"}</button>
        <Account />
      </header>
      <main id="main" tabindex="-1" ref={(el) => (main = el)}>
        <ErrorBoundary fallback={(err: unknown, reset) => <Broken err={err} reset={reset} />}>
          <Suspense fallback={<div class="blank" aria-busy="true" />}>{props.children}</Suspense>
        </ErrorBoundary>
      </main>
      <Keyboard />
    </>
  );
}

/** Pulse says who leads and how old what is shown is. */
function Pulse(): JSX.Element {
  const leader = () => shared.cluster.data?.leader ?? "";
  const term = () => shared.replicas.data?.term;
  const age = () => (answeredAt() === 0 ? 0 : Math.max(0, (now() - answeredAt()) / 1000));
  const old = () => age() > 5 || (shared.cluster.data && !leader());
  return (
    <div class="pulse" classList={{ old: !!old() }} role="status" aria-label="State of the cluster">
      <span class="dot" aria-hidden="true" />
      <Show when={leader()} fallback={<b>{shared.cluster.data ? "no leader" : "…"}</b>}>
        <span><b>{leader()}</b> leads</span>
      </Show>
      <Show when={term()}>{(t) => <span class="wide">term {count(t())}</span>}</Show>
      <span class="wide" title="The index of the newest log entry that an answer reflects">entry {count(index())}</span>
      <span class="age">{age() > 5 ? `${duration(age())} old` : "live"}</span>
    </div>
  );
}

function Account(): JSX.Element {
  return (
    <div id="account" popover class="menu">
      <dl class="facts">
        <div><dt>user</dt><dd>{session()?.user_id}</dd></div>
        <div><dt>tenant</dt><dd>{session()?.tenant_id}</dd></div>
        <div><dt>may</dt><dd>{session()?.permissions.map((p) => p.replace("scaimind:", "")).join(", ")}</dd></div>
      </dl>
      <div class="theme" role="group" aria-label="Theme">
        {(["system", "light", "dark"] as Theme[]).map((t) => <button class="chip" aria-pressed={theme() === t} onClick={() => setTheme(t)}>{t}</button>)}
      </div>
      <A class="button" href="/sessions">Sessions</A>
      <button onClick={openHelp}>Keys</button>
      <button onClick={() => void signOut()}>Sign out</button>
      <Show when={staying()}><p class="problem" role="alert">{staying()}</p></Show>
    </div>
  );
}

function Broken(props: { err: unknown; reset: () => void }): JSX.Element {
  return (
    <section class="notice bad">
      <h1>This page failed</h1>
      <p>{String(props.err)}</p>
      <button onClick={() => props.reset()}>Try again</button>
    </section>
  );
}
