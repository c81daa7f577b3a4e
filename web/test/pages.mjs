// Every page in both themes: axe finds nothing, and, when MIND_SHOTS names a folder, a picture of it goes there.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { goto, settled } from "./harness.mjs";
import { small } from "./png.mjs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** violations runs axe in the world of the tests, where the policy of the page does not hold. */
async function violations(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  await session.send("Runtime.evaluate", { expression: axe, contextId: executionContextId });
  const { result } = await session.send("Runtime.evaluate", {
    expression: `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.map((n) => n.target.join(" ") + ": " + n.failureSummary.split("\\n").slice(1).join(" ")).slice(0, 4)])))`,
    contextId: executionContextId, awaitPromise: true, returnByValue: true,
  });
  await session.detach();
  return JSON.parse(result.value);
}

// Where pictures go; empty: none are taken.
const shots = process.env.MIND_SHOTS ?? "";

async function take(page, name) {
  if (shots) writeFileSync(join(shots, `${name}.png`), small(await page.screenshot()));
}

/** pages opens each of these, and returns what axe found. */
export async function pages(seen, list) {
  const found = [];
  for (const scheme of ["light", "dark"]) {
    const page = await seen.signedIn("/", { colorScheme: scheme });
    for (const { name, path, ready, act, picture } of list) {
      await goto(page, path);
      await settled(page);
      if (ready) await page.locator(ready).first().waitFor();
      if (act) await act(page);
      await page.mouse.move(0, 0);
      if (picture) await take(page, `${name}-${scheme}`);
      for (const [id, nodes] of await violations(page)) found.push(`${name} (${scheme}): ${id}: ${nodes.join(" | ")}`);
      await page.keyboard.press("Escape");
    }
    await page.context().close();
    const out = await seen.page({ colorScheme: scheme });
    await out.goto(`${seen.cluster.url}/console/`);
    await out.getByLabel("Token").waitFor();
    await take(out, `signin-${scheme}`);
    for (const [id, nodes] of await violations(out)) found.push(`signin (${scheme}): ${id}: ${nodes.join(" | ")}`);
    await out.context().close();
  }
  assert.deepEqual(found, []);
}
