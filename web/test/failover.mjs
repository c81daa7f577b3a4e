// The leader dies while a log is followed: every line is shown once, in order, and the failover is shown as it was.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { goto } from "./harness.mjs";

const many = 600;

export async function failover(seen) {
  const { cluster } = seen;
  const id = await cluster.submit("followed", `i=0; while [ $i -lt ${many} ]; do i=$((i+1)); echo "line $i of the log"; sleep 0.02; done`);
  const page = await seen.signedIn("/");
  await goto(page, `/jobs/${id}/log?from=start`);
  await page.locator(".line").getByText("line 100 of the log", { exact: true }).waitFor();
  const leader = await cluster.killLeader();
  await page.locator(".pulse").getByText(/no leader|leads/).first().waitFor();
  await page.locator("[data-state=ended]").waitFor({ timeout: 60_000 });
  const lines = await page.evaluate(async () => {
    const box = document.querySelector(".lines-box");
    const seen = [];
    for (let top = 0; ; top += box.clientHeight / 2) {
      box.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      for (const p of box.querySelectorAll(".line")) {
        const place = Math.round((p.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop) / 21);
        seen[place] = p.querySelector(".text").textContent;
      }
      if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) return seen;
    }
  });
  const printed = Array.from({ length: many }, (_, i) => `line ${i + 1} of the log`);
  const hash = (all) => createHash("sha256").update(all.join("\n")).digest("hex");
  assert.equal(lines.length, many);
  assert.equal(hash(lines), hash(printed), "lines shown are lines printed");
  await goto(page, "/cluster");
  await page.locator(".lanes .gaps b").first().waitFor();
  const { failovers } = await cluster.call("GET", "/cluster/failovers");
  const row = page.locator("tbody tr", { hasText: leader }).filter({ hasText: failovers[0].leader }).last();
  await row.getByText(`${failovers[0].stood_still_seconds.toFixed(2)} s`).waitFor();
  assert.equal(await row.locator("td").last().innerText(), String(failovers[0].jobs_harmed));
  assert.equal(failovers[0].jobs_harmed, 0);
  await page.context().close();
}
