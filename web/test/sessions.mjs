// A session of a browser: no script can read it, it survives loading the page again, and it ends everywhere when it is ended.
import assert from "node:assert/strict";
import { goto } from "./harness.mjs";

export async function sessions(seen) {
  const { cluster } = seen;
  const page = await seen.signedIn("/");
  const kept = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href]));
  assert.ok(!kept.includes(cluster.token) && !kept.includes("sck_"), "scripts find no credential");
  const [cookie] = (await page.context().cookies()).filter((c) => c.value.startsWith("sck_"));
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict");
  await page.reload();
  await page.locator("header.top nav").waitFor();

  const other = await seen.signedIn("/");
  await goto(other, "/jobs");
  await goto(page, "/sessions");
  const rows = page.locator("tbody tr", { hasNot: page.getByText("this one") });
  await page.getByText("this one").waitFor();
  for (let n = await rows.count(); n > 0; n--) {
    await rows.first().getByRole("button", { name: /^End/ }).click();
    await page.getByRole("button", { name: "End the session" }).click();
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.waitForFunction((n) => document.querySelectorAll("tbody tr").length === n, n);
  }
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.context().close();

  // A page of another origin cannot write with it.
  const status = await page.evaluate(async (url) => (await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" })).status, `${cluster.url}/v1/modules/scaimind/jobs`);
  assert.notEqual(status, 403, "the page of the gateway may");
  const forged = await fetch(`${cluster.url}/v1/modules/scaimind/jobs`, { method: "POST", headers: { Cookie: `${cookie.name}=${cookie.value}`, Origin: "https://evil.example", "Sec-Fetch-Site": "cross-site" }, body: "{}" });
  assert.ok([401, 403].includes(forged.status), `another page may not: ${forged.status}`);

  const out = await seen.page();
  await out.route("**/v1/session/methods", (r) => r.fulfill({ json: { data: { token: true, oidc: { name: "Acme", login_path: "/v1/session/login" } } } }));
  await out.goto(`${cluster.url}/console/jobs?error=denied`);
  await out.getByRole("alert").getByText("did not let you in").waitFor();
  assert.equal(new URL(out.url()).search, "", "an error is shown once");
  assert.equal(await out.getByRole("link", { name: "Continue with Acme" }).getAttribute("href"), "/v1/session/login?next=%2Fconsole%2Fjobs");
  await out.goto(`${cluster.url}/console/?error=${encodeURIComponent("Get a new token at evil.example")}`);
  await out.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await out.getByText("evil.example").count(), 0, "the text of an address is not shown");
  await out.context().close();

  // A link signs nobody in as somebody else without asking.
  const made = await cluster.call("POST", "/tokens", { permissions: ["scaimind:view"], name: "other", user_id: "mallory" });
  const link = `${cluster.url}/console/?again#token=${encodeURIComponent(made.token)}`;
  await page.goto(link);
  await page.getByText("signs you in as mallory of").waitFor();
  assert.ok(!page.url().includes("token"), "the token has left the address");
  await page.getByRole("button", { name: "Stay signed in as dev" }).click();
  await page.locator("header.top nav").waitFor();
  await page.getByRole("button", { name: "dev" }).waitFor();

  await page.getByRole("button", { name: "dev" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.context().close();
}
