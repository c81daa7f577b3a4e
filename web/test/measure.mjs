// Measures what the console costs a browser: `node test/measure.mjs`. The pages are real, the answers are those of a
// cluster that is larger than one machine: 10,000 GPUs of which 200 change a second, and a log of 100,000 lines to which
// 2,000 come a second.
import { front, json, watch } from "./front.mjs";
import { Cluster, launch, pause } from "./harness.mjs";

const nodes = 1250;
const seconds = 10;

const cluster = await Cluster.start("--agents", "2", "--gpus", "8xH100");
const browser = await launch();
try {
  // The first visit, on a slow machine and network.
  for (let i = 0; i < 3; i++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", { offline: false, latency: 20, downloadThroughput: 10e6 / 8, uploadThroughput: 10e6 / 8 });
    await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await page.addInitScript(() => {
      window.shift = 0;
      new PerformanceObserver((l) => { for (const e of l.getEntries()) window.shift += e.hadRecentInput ? 0 : e.value; }).observe({ type: "layout-shift", buffered: true });
    });
    await page.goto(`${cluster.url}/console/#token=${cluster.token}`, { waitUntil: "commit" });
    await page.getByRole("heading", { name: /coordinators agree/ }).waitFor();
    const ready = await page.evaluate(() => Math.round(performance.now()));
    await pause(2000);
    const paint = await page.evaluate(() => ({ fcp_ms: Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0), cls: Math.round(window.shift * 1000) / 1000 }));
    console.log("first visit, 4x slower, 10 Mbit/s:", JSON.stringify({ ...paint, verdict_ms: ready }));
    await context.close();
  }

  const each = (value) => Array.from({ length: nodes }, (_, i) => value(i));
  const map = {
    node_ids: each((i) => `node-${String(i).padStart(4, "0")}`), states: each(() => "READY"), gpu_types: each(() => "H100"), domains: each((i) => `leaf-${i >> 5}`),
    gpus: each(() => "mmmmoooo"), utilization: each(() => "99880000"),
  };
  const send = (res, name, data, id) => res.write(`id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  const printed = (n) => ({ level: "INFO", message: `\x1b[2m${n}\x1b[0m step ${n} loss ${(3 * Math.exp(-n / 5e4)).toFixed(4)} tokens/s 18234 lr 0.0003`, timestamp: new Date().toISOString(), rank: 0, stream: "stdout", attempt: 1 });
  let n = 0;
  const id = await cluster.submit("long", "sleep 3600");
  await cluster.until(id, "TRAINING");
  const server = await front(cluster, {
    "/cluster/map": (_, res) => json(res, map),
    "/events": (_, res) => {
      res.writeHead(200, { "Content-Type": "text/event-stream" });
      let index = 1e6;
      const timer = setInterval(() => {
        for (let i = 0; i < 20; i++) {
          const n = Math.floor(Math.random() * nodes);
          map.gpus[n] = map.gpus[n].slice(1) + "m.ox"[Math.floor(Math.random() * 4)];
          index++;
          send(res, "lease", { index, position: 0, cursor: `${index}.0`, topic: "lease", time: new Date().toISOString(), job_id: id, nodes: [map.node_ids[n]], granted: true }, `${index}.0`);
        }
      }, 100);
      res.on("close", () => clearInterval(timer));
    },
    [`/jobs/${id}/logs`]: (_, res) => {
      res.writeHead(200, { "Content-Type": "text/event-stream" });
      for (; n < 100_000; n++) send(res, "log", printed(n), n);
      const timer = setInterval(() => {
        for (let i = 0; i < 100; i++, n++) send(res, "log", printed(n), n);
      }, 50);
      res.on("close", () => clearInterval(timer));
    },
  });
  const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
  const url = `http://127.0.0.1:${server.address().port}`;
  await page.goto(`${url}/console/#token=${cluster.token}`);
  await page.locator(".picture canvas").waitFor();
  console.log("10,000 GPUs, 200 changes a second:", JSON.stringify(await watch(page, () => pause(seconds * 1000))));
  const come = async () => {
    await page.evaluate((to) => { history.pushState(null, "", to); dispatchEvent(new PopStateEvent("popstate")); }, `/console/jobs/${id}/log`);
    await page.waitForFunction(() => Number(document.querySelector("[data-state]")?.textContent.split(" lines")[0].replace(/\D/g, "")) >= 100_000, null, { timeout: 120_000 });
  };
  console.log("100,000 lines come:", JSON.stringify(await watch(page, come)));
  console.log("2,000 lines a second:", JSON.stringify(await watch(page, () => pause(seconds * 1000))));
  console.log("heap:", JSON.stringify(await page.evaluate(() => `${Math.round(performance.memory.usedJSHeapSize / 2 ** 20)} MiB`)));
  server.closeAllConnections();
  server.close();
} finally {
  await browser.close();
  await cluster.stop();
}
