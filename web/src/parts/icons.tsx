import type { JSX } from "solid-js";
import type { Kind } from "../core/status";

/** Mark is the sign of Mind. */
export function Mark(): JSX.Element {
  return (
    <svg class="sign" viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="4" />
      <path d="M3.5 11.5v-7l4.5 4.5 4.5-4.5v7" />
    </svg>
  );
}

const shapes: Record<Kind, string> = {
  waits: "M5 1.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7z",
  runs: "M5 1a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
  done: "M1.5 5.4l2.4 2.4L8.5 2.6",
  failed: "M2 2l6 6M8 2l-6 6",
  stopped: "M3 2v6M7 2v6",
};

/** Shape says a kind of status without its colour. */
export function Shape(props: { kind: Kind }): JSX.Element {
  return (
    <svg class={`shape ${props.kind}`} viewBox="0 0 10 10" aria-hidden="true">
      <path d={shapes[props.kind]} />
    </svg>
  );
}
