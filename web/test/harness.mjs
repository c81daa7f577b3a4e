// A whole cluster and a browser, for tests that do what a user does.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const mind = process.env.MIND ?? new URL("../../bin/mind", import.meta.url).pathname;
export const browserPath = process.env.MIND_CHROMIUM ?? "/usr/bin/chromium";

/** missing says what these tests lack; empty: nothing. */
export function missing() {
  if (!existsSync(mind)) return `${mind} is missing: make build`;
  if (!existsSync(browserPath)) return `${browserPath} is missing: install the package chromium, or name a browser in MIND_CHROMIUM`;
  return "";
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Cluster is a `mind dev` in a folder of its own. */
export class Cluster {
  static async start(...flags) {
    const c = new Cluster();
    c.dir = mkdtempSync(join(tmpdir(), "mind-console-"));
    const http = `127.0.0.1:${await freePort()}`;
    c.url = `http://${http}`;
    c.process = spawn(mind, ["dev", "--quiet", "--data-dir", c.dir, "--http", http, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    c.process.stderr.on("data", (d) => (said += d));
    await new Promise((done, failed) => {
      c.process.stdout.on("data", (d) => String(d).includes("ready") && done());
      c.process.on("exit", (code) => failed(new Error(`mind dev ended with ${code}: ${said}`)));
    });
    c.token = c.info().token;
    return c;
  }

  info() {
    return JSON.parse(readFileSync(join(this.dir, "dev.json"), "utf8"));
  }

  async stop() {
    const ended = new Promise((done) => this.process.on("exit", done));
    this.process.kill("SIGTERM");
    await ended;
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** call asks the API. */
  async call(method, path, body, token = this.token) {
    const response = await fetch(this.url + (path.startsWith("/v1") ? path : `/v1/modules/scaimind${path}`), {
      method, headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return path.startsWith("/v1/flows") ? answer : answer.data; // flows answer with the thing itself
  }

  /** submit submits a shell command, and answers with the id. */
  async submit(name, script, more = {}) {
    const { job_id } = await this.call("POST", "/jobs", { name, command_config: { argv: ["sh", "-c", script], cwd: "/tmp" }, ...more });
    return job_id;
  }

  /** killLeader kills the coordinator that leads, and waits for the next one and for the first one to be back. */
  async killLeader() {
    const replicas = () => this.call("GET", "/cluster/coordinators");
    const { leader, term } = await replicas();
    process.kill(this.info().coordinators.find((c) => c.id === leader).pid, "SIGKILL");
    for (;;) {
      const now = await replicas();
      if (now.term > term && now.leader && now.coordinators.every((c) => c.reachable && c.liveness === "alive")) return leader;
      await pause(200);
    }
  }

  /** clear cancels what earlier tests have left. */
  async clear() {
    const { jobs } = await this.call("GET", "/jobs?page_size=100&fields=job_id,status");
    const left = jobs.filter((j) => !["COMPLETED", "FAILED", "CANCELLED"].includes(j.status));
    for (const j of left) await this.call("POST", `/jobs/${j.job_id}/cancel`, {});
    for (const j of left) await this.until(j.job_id, "CANCELLED", "COMPLETED", "FAILED");
  }

  /** until asks for a job until it has one of these statuses. */
  async until(id, ...statuses) {
    for (;;) {
      const job = await this.call("GET", `/jobs/${id}`);
      if (statuses.includes(job.status)) return job;
      await pause(100);
    }
  }
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export function launch() {
  return chromium.launch({
    executablePath: browserPath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/**
 * Seen opens pages and keeps what must never happen: a request to another origin, a violation of the policy, an error of
 * a script, a token in an address.
 */
export class Seen {
  wrong = [];
  constructor(browser, cluster) {
    this.browser = browser;
    this.cluster = cluster;
  }

  async page(options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
    await context.exposeBinding("violated", (_, what) => this.wrong.push(`policy: ${what}`));
    await context.addInitScript(() => addEventListener("securitypolicyviolation", (e) => window.violated(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`)));
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.on("pageerror", (e) => this.wrong.push(`script: ${e.message}`));
    page.on("dialog", (d) => { this.wrong.push(`dialog: ${d.message()}`); void d.dismiss(); });
    context.on("request", (r) => {
      const url = r.url();
      if (!url.startsWith(this.cluster.url) && !url.startsWith("data:")) this.wrong.push(`request: ${url}`);
      if (url.includes(this.cluster.token) && !url.includes("#")) this.wrong.push(`token: ${url}`);
    });
    return page;
  }

  /** signedIn opens a page with the address that `mind dev` prints. */
  async signedIn(path = "/", options = {}) {
    const page = await this.page(options);
    await page.goto(`${this.cluster.url}/console${path}${path.includes("#") ? "" : `#token=${encodeURIComponent(this.cluster.token)}`}`);
    await page.locator("header.top nav").waitFor(); // there is a session
    return page;
  }
}

/** goto moves within the console, as a link does, without loading it again. */
export async function goto(page, path) {
  await page.evaluate((to) => {
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
  }, "/console" + path);
}

/** settled waits until nothing loads. */
export async function settled(page) {
  await page.locator("h1").first().waitFor();
  await page.waitForFunction(() => !document.querySelector(".loading, [aria-busy=true]"));
  await page.evaluate(() => document.fonts.ready);
}
