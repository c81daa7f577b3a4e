// Measures what large flows cost a browser: `node test/measureflow.mjs`. It fails when a node of a flow of 500 cannot be
// dragged without a task that takes 50 ms of the processor. The page is real; the flows are answered by a front of the gateway.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { cost, front } from "./front.mjs";
import { Cluster, launch, pause } from "./harness.mjs";

const table = JSON.parse(readFileSync(new URL("../src/core/flow/tests/kinds.json", import.meta.url), "utf8"));

// flow is a drawing of many nodes: chains side by side that leave one entry.
function flow(id, count, level) {
  const spec = (name) => table.kinds.find((k) => k.kind === name);
  const kinds = ["tool_plugin", "llm_rigid", "data_variable_set", "checkpoint", "subflow_call"].map(spec);
  const nodes = [{ id: "start", type: "entry_api", label: "Start", position: { x: 0, y: 0 }, config: {} }];
  const edges = [];
  const wide = Math.ceil(Math.sqrt(count / 2));
  for (let i = 0; nodes.length < count; i++) {
    const k = kinds[i % kinds.length];
    nodes.push({ id: `n${i}`, type: k.kind, label: `${k.label} ${i}`, position: { x: 296 * (1 + (i % wide)), y: 96 * Math.floor(i / wide) }, config: { prompt: "a question" }, inputs: k.inputs, outputs: k.outputs });
    edges.push({ id: `e${i}`, type: "sequential", source: i % wide === 0 ? { node: "start", port: "out_request" } : { node: `n${i - 1}`, port: "out" }, target: { node: `n${i}`, port: "in" } });
  }
  const at = new Date().toISOString();
  return { id, name: `Flow of ${count}`, description: "", owner_id: "dev", tenant_id: "dev", version: "0.1.0", level, created_at: at, updated_at: at, content: { id, name: `Flow of ${count}`, version: "0.1.0", nodes, edges, config: {} } };
}

const plain = (of) => (_, res) => {
  res.writeHead(200, { "Content-Type": "application/json", "X-Mind-Index": "1" });
  res.end(JSON.stringify(of));
};

const cluster = await Cluster.start("--agents", "1", "--gpus", "8xH100");
const browser = await launch();
let server;
try {
  server = await front(cluster, {
    "/v1/flows/kinds": plain(table), "/v1/flows/validate": plain({ valid: true, diagnostics: [] }), "/v1/flows/edited": plain(flow("edited", 500, "admin")), "/v1/flows/seen": plain(flow("seen", 5000, "view")),
  });
  const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
  const url = `http://127.0.0.1:${server.address().port}`;
  await page.goto(`${url}/console/#token=${cluster.token}`);
  await page.locator(".picture canvas").waitFor();
  const open = (id) => page.evaluate((to) => { history.pushState(null, "", to); dispatchEvent(new PopStateEvent("popstate")); }, `/console/flows/${id}`);

  await open("edited");
  await page.locator("svg.canvas").waitFor();
  await page.locator("[data-checked=done]").waitFor();
  const drag = async (node) => {
    const b = await page.locator(`[data-node=${node}]`).boundingBox();
    const [x, y] = [b.x + b.width / 2, b.y + b.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let i = 1; i <= 120; i++) {
      await page.mouse.move(x + 120 * Math.sin(i / 19), y + 90 * Math.sin(i / 13));
      await pause(8);
    }
    await page.mouse.up();
  };
  const canvas = page.locator("svg.canvas");
  const results = {};
  // Some dozens of nodes are drawn one by one; then all 500, as paths.
  await canvas.focus();
  await page.keyboard.press("Alt+ArrowRight");
  await page.locator("[data-node=n1]").waitFor();
  await page.locator(".far").waitFor({ state: "detached" });
  results["one of 500 nodes is dragged, near"] = await cost(page, () => drag("n1"));
  await page.keyboard.press("Control+a");
  results["all of 500 nodes are dragged, near"] = await cost(page, () => drag("n1"));
  results["500 nodes are undone and done again"] = await cost(page, async () => { for (const k of ["z", "y", "z", "y"]) { await page.keyboard.press(`Control+${k}`); await pause(200); } });
  await canvas.focus();
  await page.keyboard.press("0");
  await page.locator(".far .node").first().waitFor();
  results["all of 500 nodes are dragged, far"] = await cost(page, async () => {
    const b = await canvas.boundingBox();
    const at = await page.evaluate(() => { const r = document.querySelector(".far .node").getBoundingClientRect(); return { x: r.x + 6, y: r.y + 4 }; });
    await page.mouse.move(at.x, at.y);
    await page.mouse.down();
    for (let i = 1; i <= 60; i++) { await page.mouse.move(at.x + b.width * 0.1 * Math.sin(i / 9), at.y + i); await pause(8); }
    await page.mouse.up();
  });
  results["500 nodes are zoomed and moved"] = await cost(page, async () => {
    const b = await canvas.boundingBox();
    await page.mouse.move(b.x + b.width / 2, b.y + b.height / 2);
    await page.keyboard.down("Control");
    for (let i = 0; i < 40; i++) { await page.mouse.wheel(0, i < 20 ? -60 : 60); await pause(16); }
    await page.keyboard.up("Control");
    for (let i = 0; i < 40; i++) { await page.mouse.wheel(30, 20); await pause(16); }
  });
  console.log(`load of the machine: ${loadavg()[0].toFixed(1)}`);
  for (const [what, r] of Object.entries(results)) console.log(`${what}:`, JSON.stringify(r));

  const before = Date.now();
  const loaded = await cost(page, async () => {
    await open("seen");
    await page.locator(".tag", { hasText: "read only" }).waitFor();
    await page.locator(".far .node").first().waitFor();
  });
  console.log("5,000 nodes load read-only:", JSON.stringify({ ms: Date.now() - before, ...loaded }));
  console.log("5,000 nodes are zoomed:", JSON.stringify(await cost(page, async () => {
    const b = await canvas.boundingBox();
    await page.mouse.move(b.x + b.width / 2, b.y + b.height / 2);
    await page.keyboard.down("Control");
    for (let i = 0; i < 60; i++) { await page.mouse.wheel(0, i < 30 ? -60 : 60); await pause(16); }
    await page.keyboard.up("Control");
  })));
  for (const what of Object.keys(results).filter((w) => w.includes("dragged"))) assert.equal(results[what].cpu_tasks_over_50ms, 0, what);
} finally {
  await browser.close();
  server?.closeAllConnections();
  server?.close();
  await cluster.stop();
}
