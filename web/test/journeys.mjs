// What a user does from signing in to canceling a job: by clicking alone, and by the keyboard alone.
import assert from "node:assert/strict";

const script = "i=0; while true; do i=$((i+1)); echo \"step $i\"; sleep 0.2; done";

export async function signsIn(seen) {
  const page = await seen.page();
  await page.goto(seen.cluster.url, { waitUntil: "domcontentloaded" });
  await page.getByLabel("Token").fill("sgk_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("not valid").waitFor();
  await page.getByLabel("Token").fill(seen.cluster.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: /coordinators agree/ }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/console/");
  return page;
}

export async function byFragment(seen) {
  const page = await seen.signedIn();
  assert.equal(new URL(page.url()).hash, "", "the token is taken out of the address");
  await page.context().close();
}

export async function byClicks(seen) {
  const blocker = await seen.cluster.submit("blocker", "sleep 3600", { resource_config: { gpu_count: 16, node_count: 2, gpu_type: "H100" } });
  await seen.cluster.until(blocker, "TRAINING");
  const page = await signsIn(seen);
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await page.getByRole("link", { name: "Submit a job" }).click();
  await page.getByLabel("Name", { exact: true }).fill("clicked");
  await page.getByLabel("Command", { exact: true }).fill(script);
  await page.getByLabel("GPUs of all nodes").fill("8");
  await page.locator(".ways pre").getByText("mind submit --name clicked --gpus 8").waitFor();
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByRole("heading", { name: "clicked" }).waitFor();

  await page.getByRole("heading", { name: "Why it waits" }).waitFor();
  await page.getByText("with GPUs in use").waitFor();
  await page.getByText("It would start now").waitFor();
  await page.getByRole("textbox", { name: /canceled/ }).first().waitFor();

  await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
  await page.getByRole("link", { name: "blocker" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByLabel(/Reason/).fill("makes room");
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.locator(".titled .status").getByText("cancelled").waitFor();

  await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
  await page.getByRole("link", { name: "clicked" }).click();
  await page.locator(".titled .status").getByText("training").waitFor();
  await page.getByRole("link", { name: "Log" }).click();
  await page.locator(".line").getByText("step 3", { exact: true }).waitFor();
  await page.getByLabel("Search the log").fill("step 1");
  await page.getByText(/match/).waitFor();
  assert.match(page.url(), /q=step\+1/, "what is searched is in the address");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.locator(".titled .status").getByText("cancelled").waitFor();
  await page.locator("[data-state=ended]").waitFor();
  await page.context().close();
}

// The keyboard alone: nothing is clicked, and what has the focus says where one is.
export async function byKeys(seen) {
  const page = await seen.page();
  const type = (text) => page.keyboard.type(text);
  const press = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
  await page.goto(`${seen.cluster.url}/console/`);
  await page.getByLabel("Token").waitFor();
  await type(seen.cluster.token);
  await press("Enter");
  await page.locator("header.top nav").waitFor();
  await press("g", "s");
  await page.getByRole("heading", { name: "Submit a job" }).waitFor();
  const until = async (label) => {
    for (let i = 0; i < 60; i++) {
      await press("Tab");
      const name = await page.evaluate(() => {
        const e = document.activeElement;
        return e?.labels?.[0]?.textContent ?? e?.getAttribute("aria-label") ?? e?.textContent ?? "";
      });
      if (name.trim().startsWith(label)) return;
    }
    assert.fail(`${label} cannot be reached with Tab`);
  };
  await until("Name");
  await type("typed");
  await until("Command");
  await type(script);
  await until("Submit");
  await press("Enter");
  await page.getByRole("heading", { name: "typed" }).waitFor();

  await press("g", "j");
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  await page.getByRole("link", { name: "typed" }).waitFor();
  await press("/");
  await type("typed");
  await page.waitForURL(/search=typed/);
  await page.getByText("1 match").waitFor();
  await press("Escape");
  await press("j", "Enter");
  await page.getByRole("heading", { name: "typed" }).waitFor();
  await page.locator(".titled .status").getByText("training").waitFor();
  await until("Log");
  await press("Enter");
  await page.locator(".line").getByText("step 2", { exact: true }).waitFor();

  await press("Control+k");
  await page.getByRole("combobox", { name: /Find/ }).waitFor();
  await type("cancel");
  await page.getByRole("option", { name: /Cancel this job/ }).waitFor();
  await press("Enter");
  await page.getByRole("heading", { name: "Cancel typed?" }).waitFor();
  await until("Cancel the job");
  await press("Enter");
  await page.locator(".titled .status").getByText("cancelled").waitFor();
  await press("?");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  await press("Escape");
  await page.context().close();
}
