import { createMemo, type JSX } from "solid-js";
import { api } from "../../core/api";
import { asYaml, requestOf } from "../../core/request";
import { curl } from "../../core/shell";
import type { Job } from "../../core/types";
import { Command } from "../../parts/parts";

/** JobSpec is the request that would submit the job again. */
export function JobSpec(props: { job: Job }): JSX.Element {
  const request = createMemo(() => requestOf(props.job));
  return (
    <section class="spec" aria-label="Specification">
      <pre class="panel" tabindex="0" aria-label="As YAML">{asYaml(request())}</pre>
      <p class="hint">As a file, it is submitted by the first line. The second one sends the same to the API.</p>
      <Command line="mind submit -f job.yaml" />
      <Command line={curl("POST", `${api}/jobs`, request())} />
    </section>
  );
}
