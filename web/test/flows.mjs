// Flows in the console: by clicks from an empty canvas to a run that is answered on it, by keys alone, and two who save at once.
import assert from "node:assert/strict";
import { goto, pause } from "./harness.mjs";

const job = { name: "train", command_config: { argv: ["sh", "-c", "echo trained"], cwd: "/tmp" } };

async function newFlow(page, name) {
  await page.getByRole("link", { name: "Flows", exact: true }).click();
  await page.getByRole("button", { name: "New flow" }).click();
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByRole("button", { name: "Draw it" }).click();
  await page.locator("svg.canvas").waitFor();
  await page.getByText("Add the first node").waitFor();
}

/** A Core that was deployed starts at once, and is called when it runs. */
async function running(cluster, core) {
  while ((await cluster.call("GET", `/v1/modules/scaicore/cores/${core}`)).status !== "running") await pause(50);
}

const checked = (page, text) => page.locator("[data-checked=done]", { hasText: text }).waitFor();

/** Nothing but clicks and typing: train, branch, ask, branch on the answer. */
export async function flowByClicks(seen) {
  const page = await seen.signedIn("/", { viewport: { width: 1440, height: 900 } });
  await newFlow(page, "Train and ask");
  await checked(page, "error");
  const add = async (kind, label) => {
    await page.locator(".kinds").getByRole("button", { name: kind, exact: true }).click();
    await page.getByLabel("Label", { exact: true }).fill(label);
  };
  const select = (label) => page.locator("g.node", { has: page.locator(".name").getByText(label, { exact: true }) }).locator(".name").click();
  const condition = async (text) => {
    await page.locator("g.link .label", { hasText: "no condition yet" }).click();
    await page.getByLabel("Condition", { exact: true }).fill(text);
  };
  await page.locator(".kinds").getByRole("button", { name: "API", exact: true }).click();
  await add("Plugin", "Train");
  await page.getByLabel("Args").fill("{");
  await page.getByText("This is no JSON yet").waitFor();
  await page.getByLabel("Args").fill(JSON.stringify(job));
  await add("Decision", "Trained?");
  await add("Checkpoint", "Ask");
  await page.getByLabel("Prompt required").fill("Publish {{train.job_id}}?");
  await page.getByLabel("Options").fill("publish\nkeep");
  await condition("train.status == 'COMPLETED'");
  await select("Trained?");
  await add("Template", "Nothing");
  await page.getByLabel("Template required").fill("nothing to publish");
  await select("Ask");
  await add("Decision", "Publish?");
  await add("Template", "Published");
  await page.getByLabel("Template required").fill("published by {{ask.resolved_by}}");
  await condition("ask.resolution == 'publish'");
  await select("Publish?");
  await add("Template", "Kept");
  await page.getByLabel("Template required").fill("kept");
  await page.getByRole("button", { name: "Arrange" }).click();
  await checked(page, "no problems");
  await page.getByRole("button", { name: "YAML" }).click();
  await page.locator(".code pre").getByText("scaiflow_meta").waitFor();
  await page.getByRole("button", { name: "IR", exact: true }).click();
  await page.locator(".code pre").getByText("schema_version").waitFor();
  await page.getByRole("button", { name: "IR", exact: true }).click();

  await page.getByRole("button", { name: "Deploy…" }).click();
  await page.getByRole("button", { name: "Save and deploy" }).click();
  await page.getByRole("heading", { name: "Deployed" }).waitFor();
  await page.getByRole("button", { name: "Run it…" }).click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText(/^Publish job_.*\?$/).waitFor();
  const node = (label) => page.locator("g.node", { hasText: label }).first();
  await page.locator("g.node.done", { hasText: "Train" }).first().waitFor();
  await page.locator("g.node.waits", { hasText: "asks" }).waitFor();
  await page.getByLabel(/Comment/).fill("good enough");
  await page.getByRole("region", { name: "Question" }).getByRole("button", { name: "publish", exact: true }).click();
  await page.locator("[data-status=completed]").waitFor();
  await page.locator("g.node.done", { hasText: "Published" }).waitFor();
  assert.match(await node("Kept").getAttribute("class"), /idle/);
  assert.match(await node("Nothing").getAttribute("class"), /idle/);
  await select("Published");
  await page.locator(".value pre").getByText("published by dev").waitFor();
  await select("Train");
  const link = page.locator(".of-run").getByRole("link", { name: /job_/ });
  const id = await link.innerText();
  const trained = await seen.cluster.call("GET", `/jobs/${id}`);
  assert.equal(trained.status, "COMPLETED");
  const execution = decodeURIComponent(new URL(page.url()).pathname.split("/").pop());
  const { jobs } = await seen.cluster.call("GET", `/jobs?label=${encodeURIComponent(`execution=${execution}`)}`);
  assert.equal(jobs.length, 1, "the job was made once");

  await page.getByRole("link", { name: "Train and ask" }).click();
  await page.getByRole("button", { name: "Runs" }).click();
  await page.getByRole("link", { name: execution }).waitFor();
  await page.getByRole("button", { name: "Versions" }).click();
  await page.getByRole("link", { name: "0.1.0", exact: true }).click();
  await page.locator(".tag", { hasText: "read only" }).waitFor();
  await page.locator(".state-line", { hasText: "0 nodes" }).waitFor();
  await page.getByRole("link", { name: "The newest version" }).click();
  await page.locator(".state-line", { hasText: "8 nodes" }).waitFor();
  await page.context().close();
}

/** The keyboard alone: nothing is clicked. */
export async function flowByKeys(seen) {
  const page = await seen.signedIn("/");
  const press = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
  const type = (text) => page.keyboard.type(text);
  const made = await seen.cluster.call("POST", "/v1/flows", { name: "typed", content: { name: "typed", nodes: [], edges: [], config: {} } });
  const stored = async () => (await seen.cluster.call("GET", `/v1/flows/${made.id}`)).content;
  const places = (g) => g.nodes.map((n) => `${n.label} ${n.position.x} ${n.position.y}`);
  await press("g", "f");
  await page.getByRole("heading", { name: "Flows" }).waitFor();
  await press("/");
  await type("typed");
  await page.locator("tbody tr", { hasText: "typed" }).waitFor();
  await press("Escape", "j", "Enter");
  await page.locator("svg.canvas").waitFor();
  await press("a");
  await type("api");
  await press("Enter", "a");
  await press("Control+a");
  await type("set var");
  await press("Enter", "Enter");
  await press("Control+a");
  await type("Limit");
  await press("Tab");
  await type("limit");
  await press("Tab");
  await type("7");
  await press("Escape");
  const save = async () => { await press("Control+s"); await page.locator(".state-line", { hasText: ", saved" }).waitFor(); };
  await save();
  const first = await stored();
  assert.deepEqual(first.nodes.map((n) => n.label), ["API", "Limit"]);
  assert.deepEqual(first.nodes[1].config, { name: "limit", value: "7" });
  assert.equal(first.edges.length, 1, "a new node follows the selected one");

  // A move is saved, and undone like everything else.
  await press("ArrowDown", "ArrowDown", "ArrowRight");
  await save();
  const moved = await stored();
  assert.deepEqual([moved.nodes[1].position.x - first.nodes[1].position.x, moved.nodes[1].position.y - first.nodes[1].position.y], [8, 16]);
  await press("Control+z");
  await save();
  assert.deepEqual(places(await stored()), places(first));
  await press("Control+y");
  await save();
  assert.deepEqual(places(await stored()), places(moved));

  await press("Control+c", "Control+v");
  await page.locator("g.node", { hasText: "Limit 2" }).waitFor();
  await press("/");
  await type("limit");
  await press("Enter", "Escape");
  await press("/", "Control+a", "Backspace", "Enter", "ArrowDown", "c");
  await page.getByRole("heading", { name: "Connect Limit" }).waitFor();
  await page.getByLabel("To", { exact: true }).waitFor();
  await press("Enter");
  await page.locator("dialog").waitFor({ state: "detached" });
  await save();
  assert.equal((await stored()).edges.length, 2);
  await press("Control+a", "Delete");
  await page.locator(".state-line", { hasText: "0 nodes" }).waitFor();
  await press("Control+z");
  await page.locator(".state-line", { hasText: "3 nodes, 2 edges" }).waitFor();
  await page.context().close();
}

/** Expressions: an error is marked where it is, names, fields and functions are completed, and no key is taken from the page. */
export async function flowExpressions(seen) {
  const content = {
    name: "expressions", edges: [], config: {}, tests: [{ name: "t", input: { wanted: 1 } }],
    nodes: [
      { id: "start", type: "entry_api", label: "Start", position: { x: 0, y: 0 }, config: {} },
      { id: "ask", type: "checkpoint", label: "Ask", position: { x: 300, y: 0 }, config: { prompt: "Go on?" } },
      { id: "set", type: "data_variable_set", label: "Limit", position: { x: 600, y: 0 }, config: { name: "limit", value: "1" } },
    ],
  };
  content.edges.push({ id: "a", type: "sequential", source: { node: "start", port: "out_request" }, target: { node: "ask", port: "in" } }, { id: "b", type: "sequential", source: { node: "ask", port: "out" }, target: { node: "set", port: "in" } });
  const made = await seen.cluster.call("POST", "/v1/flows", { name: "expressions", content });
  const page = await seen.signedIn(`/flows/${made.id}`, { viewport: { width: 1440, height: 900 } });
  const value = page.getByRole("textbox", { name: "Value required" });
  const press = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
  await page.locator("g.node", { hasText: "Limit" }).locator(".name").click();
  await page.locator(".code-field .cm-content").first().waitFor();
  await value.fill("1 + * 2");
  await page.locator(".inspector .problem", { hasText: "expected a value, found *" }).waitFor();
  assert.equal(await page.locator(".code-field .wrong").innerText(), "*");
  assert.equal(await value.getAttribute("aria-invalid"), "true");
  await value.fill("limmit + 1");
  await page.locator(".inspector .problem", { hasText: "called limmit" }).waitFor();
  await press("Home");
  await page.locator(".cm-tooltip .cm-wrong, .cm-tooltip.cm-wrong", { hasText: "called limmit" }).waitFor();

  // By keys: a name, its field, a method of the field's type.
  const list = page.locator(".cm-tooltip-autocomplete");
  await value.fill("");
  await page.keyboard.type("as");
  await list.getByRole("option", { name: /^ask/ }).waitFor();
  await page.keyboard.type("k.reso");
  await list.getByRole("option", { name: /^resolution/ }).waitFor();
  await press("Enter");
  await page.keyboard.type(".up");
  await list.getByRole("option", { name: /upper\(\): string/ }).waitFor();
  await press("Enter");
  await list.waitFor({ state: "detached" });
  assert.equal((await value.innerText()).trim(), "ask.resolution.upper()");
  await page.locator(".inspector .problem").waitFor({ state: "detached" });
  // The keys of the page are letters here; Escape closes the list, and then leaves the field.
  await press("End");
  await page.keyboard.type(" + a");
  await list.waitFor();
  await press("Escape");
  await list.waitFor({ state: "detached" });
  await press("Backspace", "Backspace", "Backspace", "Backspace", "Control+s");
  await page.locator(".state-line", { hasText: ", saved" }).waitFor();
  const stored = async () => (await seen.cluster.call("GET", `/v1/flows/${made.id}`)).content.nodes[2].config.value;
  assert.equal(await stored(), "ask.resolution.upper()");
  await press("Control+z");
  await page.waitForFunction(() => !document.querySelector(".code-field").shadowRoot.querySelector(".cm-content").textContent.startsWith("ask.resolution.upper()"));
  await press("Control+y", "Escape");
  assert.equal(await page.evaluate(() => document.activeElement.matches("svg.canvas")), true, "Escape leads back to the canvas");
  // Tab leaves the field: it is no trap.
  await value.focus();
  await press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.matches("[data-typing]")), false);
  await page.context().close();
}

/** Two draw the same flow, and nobody's work is lost. */
export async function flowConflict(seen) {
  const { cluster } = seen;
  const content = { name: "shared", nodes: [{ id: "start", type: "entry_api", label: "Start", position: { x: 0, y: 0 }, config: {} }], edges: [], config: {} };
  const made = await cluster.call("POST", "/v1/flows", { name: "shared", content });
  const page = await seen.signedIn(`/flows/${made.id}`);
  await page.locator("g.node", { hasText: "Start" }).waitFor();
  const other = await seen.signedIn(`/flows/${made.id}`);
  await other.locator("g.node", { hasText: "Start" }).waitFor();
  await other.locator(".kinds").getByRole("button", { name: "Template", exact: true }).click();
  await other.getByRole("button", { name: "Save", exact: true }).click();
  await other.getByRole("button", { name: "Saved", exact: true }).waitFor();
  await page.locator(".kinds").getByRole("button", { name: "Loop", exact: true }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("heading", { name: "Somebody else saved this flow" }).waitFor();
  await page.getByRole("button", { name: "Look at the difference" }).click();
  await page.locator("dialog dd", { hasText: "Loop" }).waitFor();
  await page.locator("dialog dd", { hasText: "Template" }).waitFor();
  await page.getByRole("button", { name: "Keep drawing" }).click();
  // A browser that dies has kept it, and restoring it does not hide the conflict.
  await page.waitForFunction(() => Object.keys(localStorage).some((k) => k.startsWith("mind.flow.") && localStorage.getItem(k).includes("logic_loop")));
  await page.reload();
  await page.getByRole("button", { name: "Restore them" }).click();
  await page.locator("g.node", { hasText: "Loop" }).waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Reload theirs" }).click();
  await page.locator("g.node", { hasText: "Template" }).waitFor();
  assert.equal(await page.locator("g.node", { hasText: "Loop" }).count(), 0);
  await page.locator("svg.canvas").press("Control+z");
  await page.locator("g.node", { hasText: "Loop" }).waitFor();
  await other.context().close();
  await page.context().close();
}

const drawing = (name, nodes, edges) => ({
  name, config: {},
  nodes: nodes.map(([id, type, config = {}, label = id], i) => ({ id, type, label, config, position: { x: i * 296, y: 0 } })),
  edges: edges.map(([from, port, to]) => ({ id: `${from}_${to}`, type: "sequential", source: { node: from, port }, target: { node: to, port: "in" } })),
});

/** A flow that cannot be deployed says where; one that trains says which GPUs it holds, and gives them back. */
export async function flowRefusedAndHeld(seen) {
  const { cluster } = seen;
  const web = await cluster.call("POST", "/v1/flows", { name: "calls", content: drawing("calls", [["start", "entry_api"], ["fetch", "tool_http", { url: "https://example.com" }, "Fetch"]], [["start", "out_request", "fetch"]]) });
  const page = await seen.signedIn(`/flows/${web.id}`);
  await page.locator("g.node .badge").waitFor();
  await checked(page, "warning");
  await page.getByRole("button", { name: "Deploy…" }).click();
  await page.getByText("keeps the flow from being deployed").waitFor();
  await page.locator("dialog").getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("alert").waitFor();
  await page.locator("dialog .findings").getByRole("button", { name: /Fetch/ }).first().click();
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.locator("g.node.selected", { hasText: "Fetch" }).waitFor();

  const args = { name: "long", command_config: { argv: ["sh", "-c", "sleep 600"], cwd: "/tmp" }, resource_config: { gpu_count: 2 } };
  const long = await cluster.call("POST", "/v1/flows", { name: "long", content: drawing("long", [["start", "entry_api"], ["train", "tool_plugin", { plugin: "mind", method: "job", args }, "Train long"]], [["start", "out_request", "train"]]) });
  const { core_id } = await cluster.call("POST", `/v1/flows/${long.id}/deploy`, {});
  await running(cluster, core_id);
  const run = await cluster.call("POST", `/v1/modules/scaicore/cores/${core_id}/invoke`, { input: {}, wait_seconds: 0 });
  await goto(page, `/flows/${long.id}/runs/${run.execution_id}`);
  await page.locator("g.node.runs", { hasText: "waits for its job, 2 GPUs" }).waitFor();
  await page.getByText("holds 2 GPUs").waitFor();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.locator("[data-status=canceled]").waitFor();
  await page.locator("g.node.failed", { hasText: "Train long" }).waitFor();
  await page.getByText("holds 2 GPUs").waitFor({ state: "detached" });
  await page.context().close();
}

/** pictured makes a flow and a run of it that asks, for pictures and for axe. */
export async function pictured(seen) {
  const { cluster } = seen;
  const node = (id, type, label, config = {}, more = {}) => ({ id, type, label, position: { x: 0, y: 0 }, config, ...more });
  const edge = (from, to, more = {}) => ({ id: `${from}_${to}`.replaceAll(".", "_"), type: "sequential", source: { node: from.split(".")[0], port: from.split(".")[1] ?? "out" }, target: { node: to, port: "in" }, ...more });
  const at = { request: [0, 80], train: [296, 80], trained: [592, 80], ask: [888, 0], publish: [1184, 0], published: [1480, -60], kept: [1480, 60], nothing: [888, 160] };
  const nodes = [
    node("request", "entry_api", "Request"), node("train", "tool_plugin", "Train", { plugin: "mind", method: "job", args: { ...job, resource_config: { gpu_count: 1 } } }), node("trained", "logic_decision", "Trained?"),
    node("ask", "checkpoint", "Ask", { prompt: "Publish the model of {{train.job_id}}?", options: ["publish", "keep"], timeout: "1d" }), node("publish", "logic_decision", "Publish?"),
    node("published", "llm_rigid", "Published", { template: "published by {{ask.resolved_by}}" }), node("kept", "llm_rigid", "Kept", { template: "kept" }), node("nothing", "llm_rigid", "Nothing to publish", { template: "nothing" }),
  ].map((n) => ({ ...n, position: { x: at[n.id][0], y: at[n.id][1] } }));
  const when = (condition) => ({ type: "conditional", condition });
  const edges = [
    edge("request.out_request", "train"), edge("train", "trained"), edge("trained", "ask", when("train.status == 'COMPLETED'")), edge("trained", "nothing", when("else")),
    edge("ask", "publish"), edge("publish", "published", when("ask.resolution == 'publish'")), edge("publish", "kept", when("else")),
  ];
  const made = await cluster.call("POST", "/v1/flows", { name: "Train, ask, publish", description: "Trains a model and asks before it is published", content: { name: "Train, ask, publish", nodes, edges, config: {} } });
  const deployed = await cluster.call("POST", `/v1/flows/${made.id}/deploy`, {});
  await running(cluster, deployed.core_id);
  const run = await cluster.call("POST", `/v1/modules/scaicore/cores/${deployed.core_id}/invoke`, { input: {}, wait_seconds: 60 });
  return { flow: made.id, run: run.execution_id };
}

