import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { attacks } from "./attacks.mjs";
import { failover } from "./failover.mjs";
import { flowByClicks, flowByKeys, flowConflict, flowExpressions, flowRefusedAndHeld, pictured } from "./flows.mjs";
import { Cluster, Seen, launch, missing } from "./harness.mjs";
import { byClicks, byFragment, byKeys } from "./journeys.mjs";
import { pages } from "./pages.mjs";
import { sessions } from "./sessions.mjs";

const lacks = missing();
if (lacks && process.env.MIND_BROWSER === "required") throw new Error(lacks);

// Pictures show a larger cluster.
const shots = process.env.MIND_SHOTS;
let cluster, browser, seen;
const train = `i=0; while true; do i=$((i+1)); awk -v i=$i 'BEGIN{srand(i); printf "{\\"step\\":%d,\\"total_steps\\":4000,\\"loss\\":%.4f,\\"lr\\":%.6f}\\n", i*10, 1.4+2.6*exp(-i/60)+0.15*rand(), 0.0003*(1-i/400)}' >> $MIND_METRICS_FILE; printf '\\033[2m%s\\033[0m step %d \\033[36mloss\\033[0m ok\\n' "$(date +%T)" $((i*10)); sleep 0.1; done`;

before(async () => {
  if (lacks) return;
  cluster = await Cluster.start("--restart", "--agents", shots ? "8" : "2", "--gpus", "8xH100");
  browser = await launch();
  seen = new Seen(browser, cluster);
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const checks = (name, run) =>
  test(name, { skip: lacks || false, timeout: 120_000 }, async () => {
    seen.wrong = [];
    await cluster.clear();
    await run();
    assert.deepEqual(seen.wrong, [], "requests to other origins, violations of the policy, errors of scripts");
  });

checks("the address with a token signs in, and loses it", () => byFragment(seen));
checks("a user who clicks signs in, submits, sees why it waits, follows the log and cancels", () => byClicks(seen));
checks("a user with a keyboard does the same", () => byKeys(seen));
checks("axe finds nothing on any page in either theme", async () => {
  const h100 = (n, nodes = 1, more = {}) => ({ resource_config: { gpu_count: n, gpu_type: "H100", node_count: nodes }, labels: { team: "research" }, ...more });
  const run = await cluster.submit("llama-sft", train, h100(4));
  const more = shots ? [["vision-pretrain", 24, 3], ["dpo-preference", 16, 2], ["reward-model", 8, 1]] : [];
  for (const [name, n, nodes] of more) await cluster.submit(name, train, h100(n, nodes));
  await cluster.submit("classifier", train, h100(6));
  await cluster.until(run, "TRAINING");
  const wait = await cluster.submit("moe-experts", train, h100(shots ? 64 : 16, shots ? 8 : 2, { scheduling_config: { priority: 7 } }));
  await cluster.submit("ablation", train, h100(8));
  const failed = await cluster.submit("bad-config", "echo 'KeyError: lr' >&2; exit 3");
  await cluster.until(failed, "FAILED");
  const drawn = await pictured(seen);
  if (shots) for (let i = 0; i < 3; i++) await cluster.killLeader();
  await pages(seen, [
    { name: "overview", picture: true, path: "/", ready: ".picture canvas" },
    { name: "overview-table", path: "/?", ready: ".map", act: async (p) => { await p.getByRole("button", { name: "Table" }).click(); } },
    { name: "jobs", picture: true, path: "/jobs", ready: ".rowbody .row" },
    { name: "jobs-none", path: "/jobs?search=nothing-is-called-so", ready: ".empty" },
    { name: "job-waits", picture: true, path: `/jobs/${wait}`, ready: ".remedies" },
    { name: "job-runs", picture: true, path: `/jobs/${run}`, ready: ".tasks" },
    { name: "job-failed", path: `/jobs/${failed}`, ready: ".panel.bad" },
    { name: "job-log", picture: true, path: `/jobs/${run}/log`, ready: ".line" },
    { name: "job-metrics", picture: true, path: `/jobs/${run}/metrics`, ready: ".uplot" },
    { name: "job-checkpoints", path: `/jobs/${run}/checkpoints`, ready: ".empty" },
    { name: "job-spec", path: `/jobs/${run}/spec`, ready: "pre" },
    { name: "job-missing", path: "/jobs/job_none", ready: ".notice" },
    { name: "job-cancel", path: `/jobs/${run}`, ready: ".tasks", act: async (p) => { await p.getByRole("button", { name: "Cancel" }).click(); } },
    { name: "submit", picture: true, path: "/submit", ready: ".form" },
    { name: "queue", picture: true, path: "/queue", ready: "tbody tr" },
    { name: "nodes", picture: true, path: "/nodes", ready: "tbody tr" },
    { name: "node", picture: true, path: "/nodes/n1", ready: "tbody tr" },
    { name: "node-drain", picture: true, path: "/nodes/n1", ready: "tbody tr", act: async (p) => { await p.getByRole("button", { name: "Drain…" }).click(); await p.locator(".rehearsal li").first().waitFor(); } },
    { name: "cluster", picture: true, path: "/cluster", ready: "tbody tr" },
    { name: "sessions", path: "/sessions", ready: "tbody tr" },
    { name: "palette", picture: true, path: "/jobs", ready: ".rowbody .row", act: async (p) => { await p.keyboard.press("Control+k"); await p.locator(".palette input").fill("mo"); await p.locator(".palette [role=option]").first().waitFor(); } },
    { name: "flows", path: "/flows", ready: "tbody tr" },
    { name: "flow", picture: true, path: `/flows/${drawn.flow}`, ready: "[data-checked=done]", act: async (p) => { await p.locator("g.node", { hasText: "Ask" }).first().click(); for (const k of ["+", "+"]) await p.keyboard.press(k); } },
    { name: "flow-outline", path: `/flows/${drawn.flow}?`, ready: "[data-checked=done]", act: async (p) => { await p.getByRole("button", { name: "Outline" }).click(); await p.getByRole("option").first().click(); await p.getByRole("button", { name: "YAML" }).click(); await p.locator(".code pre").waitFor(); } },
    { name: "flow-deploy", path: `/flows/${drawn.flow}?2`, ready: "[data-checked=done]", act: async (p) => { await p.getByRole("button", { name: "Deploy…" }).click(); } },
    { name: "flow-run", picture: true, path: `/flows/${drawn.flow}/runs/${drawn.run}`, ready: ".answer .buttons", act: async (p) => { await p.locator("svg.canvas").focus(); for (const k of ["+", "+"]) await p.keyboard.press(k); } },
    { name: "flow-expression", path: `/flows/${drawn.flow}?3`, ready: "[data-checked=done]", act: async (p) => {
      await p.locator("g.node", { hasText: "Ask" }).first().click();
      await p.getByRole("textbox", { name: "Prompt required" }).click();
      await p.keyboard.press("Control+End");
      await p.keyboard.type(" {{nobody}} {{inp");
      await p.locator(".cm-tooltip-autocomplete").getByRole("option").first().waitFor();
      await p.locator(".inspector .problem").waitFor();
    } },
    { name: "flow-missing", path: "/flows/flow_none", ready: ".notice" },
    { name: "missing", path: "/no/such/page", ready: ".notice" },
  ]);
});
checks("a user who clicks draws a flow, deploys it, and answers it on the canvas", () => flowByClicks(seen));
checks("a user with a keyboard draws, moves, undoes, copies and connects", () => flowByKeys(seen));
checks("expressions of a flow are checked and completed as they are typed", () => flowExpressions(seen));
checks("two who draw the same flow lose nothing", () => flowConflict(seen));
checks("a flow says why it is not deployed, and which GPUs its run holds", () => flowRefusedAndHeld(seen));
checks("a session is out of reach of scripts, and ends everywhere", () => sessions(seen));
checks("what a token may not is named, not shown as empty", async () => {
  const { token } = await cluster.call("POST", "/tokens", { permissions: ["scaimind:evaluate"], name: "narrow" });
  const page = await seen.page();
  await page.goto(`${cluster.url}/console/jobs#token=${token}`);
  await page.getByText("hidden from you").first().waitFor();
  await page.getByText("scaimind:view").first().waitFor();
  await page.context().close();
});
checks("no string of a user becomes markup, a script or a link", () => attacks(seen));
checks("a log is followed through the death of the leader without gap or repeat", () => failover(seen));
