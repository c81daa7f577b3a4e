import { A, useLocation } from "@solidjs/router";
import type { JSX } from "solid-js";

export function Missing(): JSX.Element {
  const location = useLocation();
  return (
    <section class="notice">
      <h1>There is no such page</h1>
      <p><code>{location.pathname}</code> is no page of this console. <A href="/">Go to the overview</A>.</p>
    </section>
  );
}
