// Strings that would be markup, scripts or links, in every place that a user can write to.
import assert from "node:assert/strict";
import { goto, settled } from "./harness.mjs";

const corpus = [
  `<script>violated('script')</script>`,
  `<img src=x onerror="violated('img')">`,
  `"><svg onload=violated('svg')>`,
  `javascript:violated('url')`,
  `'-violated('quote')-'`,
  "${violated`template`}{{violated('braces')}}",
  `<style>*{background:url(//evil.example/x)}</style><link rel=stylesheet href=//evil.example/x>`,
  `<iframe srcdoc="<script>parent.violated(1)</script>"></iframe><base href=//evil.example/><meta http-equiv=refresh content="0;url=//evil.example">`,
  "\u202e\u0000<a href=//evil.example>x</a>",
];

export async function attacks(seen) {
  const { cluster } = seen;
  const evil = corpus.join(" ");
  const print = corpus.map((c) => `\x1b[31m${c}\x1b[0m \x1b]8;;javascript:violated('osc')\x07link\x1b]8;;\x07`).join("\n");
  const ids = [];
  for (const [i, text] of [...corpus, evil].entries()) {
    const clean = text.replaceAll("\u0000", "");
    ids.push(await cluster.submit(clean.slice(0, 120), `printf '%s\\n' "$EVIL"; echo '{"step":1,"<img src=x onerror=violated(1)>":1,"loss":1}' >> $MIND_METRICS_FILE; exit 3`, {
      command_config: { argv: ["sh", "-c", `printf '%s\\n' "$EVIL"; echo '{"step":1,"<img src=x onerror=violated(1)>":1,"loss":1}' >> $MIND_METRICS_FILE; exit 3`], cwd: "/tmp", environment: { EVIL: print.replaceAll("\u0000", "") } },
      labels: { [`l${i}`]: clean.slice(0, 60) },
    }));
  }
  for (const id of ids) await cluster.until(id, "FAILED", "COMPLETED");
  const waiting = await cluster.submit(corpus[1], "sleep 1", { scheduling_config: { not_before: new Date(Date.now() + 3_600_000).toISOString() }, labels: { x: corpus[0].slice(0, 60) } });
  await cluster.call("POST", `/jobs/${waiting}/cancel`, { reason: evil.replaceAll("\u0000", "").slice(0, 900) });
  await cluster.call("POST", "/cluster/nodes/n2/drain", { reason: corpus[1] + corpus[2] });

  const text = (i) => corpus[i % corpus.length].replaceAll("\u0000", "");
  const node = (id, type, i, config) => ({ id, type, label: text(i), position: { x: i * 300, y: 0 }, config });
  const drawn = await cluster.call("POST", "/v1/flows", { name: text(1), description: evil.replaceAll("\u0000", "").slice(0, 900), content: { name: text(1), config: {}, nodes: [
    node("a", "entry_api", 0), node("b", "checkpoint", 1, { prompt: evil.replaceAll("\u0000", ""), options: corpus.slice(0, 4), strange: evil }), node("c", text(2), 2, {}), node("d", "llm_rigid", 6, { template: evil.replaceAll("\u0000", "") }),
  ], edges: [{ id: text(0), type: "sequential", source: { node: "a", port: "out_request" }, target: { node: "b", port: "in" } }, { id: "e2", type: "conditional", condition: text(1), source: { node: "b", port: "out" }, target: { node: "d", port: "in" } }] } });

  const page = await seen.signedIn("/");
  const paths = ["/flows", `/flows/${drawn.id}`, "/", "/jobs", "/nodes", "/nodes/n2", "/queue", "/cluster", `/jobs/${waiting}`, `/jobs/${encodeURIComponent(corpus[1])}`, `/jobs?search=${encodeURIComponent(corpus[1])}&label=${encodeURIComponent("a=" + corpus[1])}`, "/" + encodeURIComponent(corpus[0])];
  for (const id of [ids[0], ids.at(-1)]) for (const tab of ["", "/log", "/metrics", "/checkpoints", "/spec"]) paths.push(`/jobs/${id}${tab}`);
  for (const path of paths) {
    await goto(page, path);
    await settled(page);
    const live = await page.evaluate(() => ({
      elements: document.querySelectorAll("main script, main iframe, main img, main style, main base, main meta, main object, main form[action], main [onload], main [onerror]").length,
      links: [...document.querySelectorAll("a[href]")].map((a) => a.protocol).filter((p) => p !== "http:" && p !== "https:"),
    }));
    assert.deepEqual(live, { elements: 0, links: [] }, path);
  }
  await goto(page, `/flows/${drawn.id}`);
  await page.locator(".canvas .name").getByText("<script>violated", { exact: false }).waitFor();
  for (const tab of ["Problems", "YAML", "Versions"]) await page.getByRole("button", { name: tab }).click();
  await page.getByRole("button", { name: "Outline" }).click();
  await page.getByRole("option").nth(1).click();
  await goto(page, `/jobs/${ids[0]}/log`);
  await page.locator(".line").getByText("<img src=x", { exact: false }).first().waitFor();
  const shown = await page.locator(".lines-box").innerText();
  for (const text of corpus.slice(0, 7)) assert.ok(shown.includes(text), `the log shows ${text} as text`);
  await page.goto(`${cluster.url}/console/?error=${encodeURIComponent(corpus[1])}`);
  await page.context().close();
  await cluster.call("POST", "/cluster/nodes/n2/enable", {});
}
