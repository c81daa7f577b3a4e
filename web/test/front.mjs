// What measurements share: a front of the gateway that answers some paths for a cluster that is larger than one machine, a
// watch on what a page does for so long that a frame is late, and the processor time of its tasks.
import { createServer, request } from "node:http";

/** Front answers some paths itself, and hands all others to the gateway. */
export function front(cluster, answers) {
  const server = createServer((req, res) => {
    const path = req.url.split("?")[0].replace("/v1/modules/scaimind", "");
    const own = answers[path];
    if (own) return own(req, res);
    const to = request(cluster.url + req.url, { method: req.method, headers: req.headers }, (from) => {
      res.writeHead(from.statusCode, from.headers);
      from.pipe(res);
    });
    to.on("error", () => res.destroy());
    req.pipe(to);
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

export const json = (res, data) => {
  res.writeHead(200, { "Content-Type": "application/json", "X-Mind-Index": "1" });
  res.end(JSON.stringify({ status: "ok", data, meta: {} }));
};

// What a page did for so long that a frame was late, and how late frames were.
export async function watch(page, run) {
  await page.evaluate(() => {
    window.tasks = [];
    window.observer = new PerformanceObserver((l) => window.tasks.push(...l.getEntries().map((e) => Math.round(e.duration))));
    window.observer.observe({ type: "longtask" });
    window.frames = [];
    let before = performance.now();
    const tick = (now) => {
      window.frames.push(now - before);
      before = now;
      window.ticking = requestAnimationFrame(tick);
    };
    window.ticking = requestAnimationFrame(tick);
  });
  await run();
  return page.evaluate(() => {
    cancelAnimationFrame(window.ticking);
    window.observer.disconnect();
    const f = window.frames.sort((a, b) => a - b);
    return { tasks_over_50ms: window.tasks.length, longest_task_ms: Math.max(0, ...window.tasks), frames: f.length, frame_p50_ms: Math.round(f[f.length >> 1]), frame_p99_ms: Math.round(f[Math.floor(f.length * 0.99)]) };
  });
}

/**
 * cost is the processor time of the tasks of a page: how many take more than 50 ms of it, and the longest, in milliseconds.
 * A machine that does other things makes them last longer, and cost no more.
 */
export async function cost(page, run) {
  const cdp = await page.context().newCDPSession(page);
  const events = [];
  cdp.on("Tracing.dataCollected", (e) => events.push(...e.value));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"] } });
  const seen = await watch(page, run);
  const complete = new Promise((done) => cdp.once("Tracing.tracingComplete", done));
  await cdp.send("Tracing.end");
  await complete;
  await cdp.detach();
  const threads = new Map();
  for (const e of events) if (e.ph === "M" && e.name === "thread_name" && e.args.name === "CrRendererMain") threads.set(`${e.pid} ${e.tid}`, []);
  for (const e of events) if (e.ph === "X" && e.name.endsWith("RunTask") && e.tdur) threads.get(`${e.pid} ${e.tid}`)?.push(e.tdur / 1000);
  const sum = (all) => all.reduce((a, b) => a + b, 0);
  // There may be a process that waits for the next page.
  const tasks = [...threads.values()].sort((a, b) => sum(b) - sum(a))[0];
  return { cpu_tasks_over_50ms: tasks.filter((ms) => ms > 50).length, longest_cpu_ms: Math.round(Math.max(0, ...tasks)), ...seen };
}
