import { Show, type JSX } from "solid-js";
import { now } from "../../app/console";
import type { Ran } from "../../core/flow/run";
import { clock, duration, since } from "../../core/format";
import { Copy, Fact, JobLink } from "../../parts/parts";

/** Value shows what a node gave, as JSON. */
export function Value(props: { name: string; value: unknown }): JSX.Element {
  const text = () => JSON.stringify(props.value, null, 2) ?? "";
  return (
    <Show when={props.value !== undefined && props.value !== null}>
      <section class="value"><header><h3>{props.name}</h3><Copy quiet text={text()} /></header><pre class="whole" tabindex="0">{text()}</pre></section>
    </Show>
  );
}

/** Node says how a node of a run is. */
export function Node(props: { name: string; ran: Ran | undefined }): JSX.Element {
  return (
    <section class="of-run">
      <Show when={props.ran} fallback={<><h2>{props.name}</h2><p class="hint">Not reached.</p></>}>
        {(r) => (
          <>
            <h2>{props.name}: {r().text}</h2>
            <Show when={r().error}>{(err) => <p class="problem">{err().code}: {err().message}</p>}</Show>
            <dl class="facts">
              <Show when={r().began}><Fact name="began">{clock(r().began, now())}</Fact></Show>
              <Show when={r().began && r().ended}><Fact name="took">{duration(since(r().began, Date.parse(r().ended!)))}</Fact></Show>
              <Show when={r().job}><Fact name="job"><JobLink id={r().job} /></Fact></Show>
              <Show when={r().gpus > 0}><Fact name="holds">{r().gpus} GPU{r().gpus === 1 ? "" : "s"}</Fact></Show>
              <Show when={r().name}><Fact name="result">{r().name}</Fact></Show>
            </dl>
            <Value name="Result" value={r().value} />
          </>
        )}
      </Show>
    </section>
  );
}
