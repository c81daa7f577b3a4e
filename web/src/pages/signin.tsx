import { Show, createSignal, onMount, type JSX } from "solid-js";
import { accept, decline, leaving, offer, signIn } from "../app/console";
import { Mark } from "../parts/icons";
import { Problem, query } from "../core/api";

interface Methods {
  token: boolean;
  oidc: { name: string; login_path: string } | null;
}

// The gateway says by a code why signing in at the issuer failed; whatever else an address says is not shown.
const failures: Record<string, string> = {
  expired: "Signing in took too long, or began in another browser: try again.",
  denied: "The sign-in server did not let you in.",
  unreachable: "The sign-in server cannot be reached now: try again.",
  refused: "The sign-in server's answer was not accepted: try again, and if that does not help, ask the operators of this cluster.",
  throttled: "There were too many sign-ins from your address: try again in a minute.",
};

/** SignIn takes a token, or sends the browser to the issuer that the gateway is configured for. */
export function SignIn(props: { refused: string }): JSX.Element {
  // It is shown once.
  const failed = new URLSearchParams(location.search).get("error");
  if (failed !== null) history.replaceState(history.state, "", location.pathname);
  const [problem, setProblem] = createSignal(failures[failed ?? ""] || props.refused || leaving());
  const issuer = (path: string) => `${path}${query({ next: location.pathname + location.search })}`;
  const [busy, setBusy] = createSignal(false);
  const [methods, setMethods] = createSignal<Methods>({ token: true, oidc: null });
  let field: HTMLInputElement | undefined;
  onMount(async () => {
    document.title = "Sign in · Mind";
    field?.focus();
    const answer = await fetch("/v1/session/methods").catch(() => undefined);
    if (answer?.ok) setMethods(((await answer.json()) as { data: Methods }).data);
  });
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const token = field?.value.trim() ?? "";
    if (token) return attempt(() => signIn(token));
    setProblem("Enter a token.");
    return Promise.resolve();
  };
  const attempt = async (how: () => Promise<void>) => {
    setBusy(true);
    setProblem("");
    try {
      await how();
    } catch (err) {
      setProblem(err instanceof Problem && err.status === 401 ? "This token is not valid, or has expired." : String((err as Error).message));
      setBusy(false);
      field?.select();
    }
  };
  return (
    <main class="signin">
      <div class="card">
        <p class="mark"><Mark />Mind</p>
        <h1>Sign in</h1>
        <Show when={offer()}>
          {(o) => (
            <div class="offer">
              <p>
                The address that you opened signs you in as <b>{o().who.user_id || "a user"}</b> of <b>{o().who.tenant_id}</b>.
                {" "}What you submit then belongs to that tenant. Go on only if the address is yours.
              </p>
              <button class="primary" disabled={busy()} onClick={() => void attempt(accept)}>Sign in as {o().who.user_id || "this user"}</button>
              <button onClick={decline}>{o().current ? `Stay signed in as ${o().current?.user_id}` : "Do not"}</button>
            </div>
          )}
        </Show>
        <Show when={methods().oidc}>
          {(oidc) => <a class="button primary" href={issuer(oidc().login_path)}>Continue with {oidc().name}</a>}
        </Show>
        <form onSubmit={(e) => void submit(e)}>
          <label for="token">Token</label>
          <input id="token" ref={(el) => (field = el)} type="password" autocomplete="off" spellcheck={false} placeholder="sgk_…"
            aria-invalid={problem() ? "true" : undefined} aria-describedby="token-help" />
          <Show when={problem()}><p class="problem" role="alert">{problem()}</p></Show>
          <button class="primary" disabled={busy()}>{busy() ? "Signing in…" : "Sign in"}</button>
        </form>
        <p id="token-help" class="hint">
          <code>mind dev</code> prints an address that signs in by itself. On other clusters <code>mind token create</code> makes a
          token. The token is exchanged for a session of this browser, and is not kept.
        </p>
      </div>
    </main>
  );
}
