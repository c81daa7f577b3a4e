import { expect, test, vi } from "vitest";
import { Client, Problem } from "../../api";
import { decoded, flowClient, flowPath } from "../client";
import { blank } from "../graph";
import { ran, type CoreEvent, type Execution } from "../run";

const execution = (more: Partial<Execution> = {}): Execution => ({
  execution_id: "exec_1", core_id: "core_1", core_slug: "x", version: 1, flow: "x", status: "running", input: {}, output: null, error: null, waiting_for: [], steps: [], created_at: "", updated_at: "", finished_at: null, ...more,
});
const event = (type: string, node: string, more: Partial<CoreEvent["payload"]> = {}, at = "2027-01-01T00:00:00Z"): CoreEvent => ({ type: `scaicore.runtime.block.${type}`, timestamp: at, payload: { node_id: node, step: node, ...more } });
const job = (step: string, status: string, gpus = 2) => ({ job_id: `job_${step}`, status, labels: { execution: "exec_1", step }, resource_config: { gpu_count: gpus } }) as unknown as Parameters<typeof ran>[2][0];

test("a node shows how it is: it ran, it failed, it ran again, it runs now", () => {
  const states = ran(execution({ steps: [{ step: "d", node_id: "d", kind: "rigid", attempt: 1, status: "running", started_at: "2027-01-01T00:00:05Z", ended_at: null, error: null }] }), [
    event("entered", "a"), event("exited", "a", { result_binding: "request", result_binding_value: { x: 1 } }, "2027-01-01T00:00:02Z"),
    event("entered", "b"), event("failed", "b", { error: { code: "JOB_FAILED", message: "exit 3" } }),
    event("entered", "c", { step: "c[0]" }), event("exited", "c", { step: "c[0]" }), event("entered", "c", { step: "c[1]" }), event("exited", "c", { step: "c[1]" }),
  ], []);
  expect(states.get("a")).toMatchObject({ state: "done", text: "done", name: "request", value: { x: 1 }, began: "2027-01-01T00:00:00Z", ended: "2027-01-01T00:00:02Z" });
  expect(states.get("b")).toMatchObject({ state: "failed", text: "JOB_FAILED", error: { message: "exit 3" } });
  expect(states.get("c")).toMatchObject({ state: "done", text: "done, 2 times", times: 2 });
  expect(states.get("d")).toMatchObject({ state: "runs", began: "2027-01-01T00:00:05Z" });
  expect(states.has("e")).toBe(false);
});

test("a node that waits says for what, and the GPUs that its job holds are counted while it holds them", () => {
  const waits = (step: string, kind: string, id: string) => ({ step, node_id: step, kind, id, since: "", until: null });
  const now = execution({ status: "waiting", waiting_for: [waits("train", "job", "job_train"), waits("ask", "decision", "dec_1")] });
  const events = [event("entered", "train"), event("entered", "ask")];
  const states = ran(now, events, [job("train", "TRAINING"), job("other", "TRAINING")]);
  expect(states.get("train")).toMatchObject({ state: "runs", text: "waits for its job, 2 GPUs", job: "job_train", gpus: 2 });
  expect(states.get("ask")).toMatchObject({ state: "waits", text: "asks" });
  expect(states.has("other")).toBe(false);
  expect(ran(now, events, [job("train", "COMPLETED")]).get("train")!.gpus).toBe(0);
});

test("a decision is made when what it leads to begins, and blocks that only lead on are no second run", () => {
  const running = (id: string) => ({ step: id, node_id: id, kind: "if", attempt: 1, status: "running", started_at: "", ended_at: null, error: null });
  const states = ran(execution({ steps: [running("d")] }), [
    event("entered", "d", { block_kind: "if" }), event("entered", "x", { step: "x" }), event("exited", "x"), event("entered", "x", { step: "x__next", block_kind: "if" }),
    event("entered", "n", { step: "n__breakpoint" }), event("exited", "n", { step: "n__breakpoint" }), event("entered", "n"),
  ], []);
  expect(states.get("d")).toMatchObject({ state: "done", text: "decided", times: 1 });
  expect(states.get("x")).toMatchObject({ state: "done", text: "done", times: 1 });
  expect(states.get("n")).toMatchObject({ state: "runs", times: 1 });
});

test("breakpoints count for their node, and nothing runs in a run that is over", () => {
  const canceled = { step: "c", node_id: "c", kind: "compute", attempt: 1, status: "canceled", started_at: "", ended_at: "", error: null };
  const states = ran(execution({ status: "canceled", steps: [canceled] }), [event("entered", "", { step: "n__breakpoint" }), event("entered", "m"), event("entered", "c")], []);
  expect(states.get("c")).toMatchObject({ state: "failed", text: "canceled" });
  expect(states.get("n")).toMatchObject({ state: "failed", text: "canceled" });
  expect(ran(execution({ status: "completed" }), [event("entered", "m")], []).get("m")!.state).toBe("done");
});

test("flows are asked as ScaiFlow answers: bare, with the version that a change was made from", async () => {
  const asked: { path: string; init: RequestInit | undefined }[] = [];
  let answer = () => new Response("{}");
  const client = new Client({ answered: vi.fn(), silent: vi.fn(), unauthorized: vi.fn(), leaderless: () => false }, async (path, init) => {
    asked.push({ path, init });
    return answer();
  }, async () => undefined);
  const flows = flowClient(client);
  answer = () => new Response(JSON.stringify({ id: "flow_1", version: "0.1.3" }));
  expect((await flows.save("flow_1", { name: "x", content: blank("x") }, "0.1.2")).version).toBe("0.1.3");
  expect(asked[0]!.path).toBe("/v1/flows/flow_1");
  expect(asked[0]!.init!.headers).toMatchObject({ "If-Match": '"0.1.2"' });
  answer = () => new Response(JSON.stringify({ detail: { error: "version_conflict", message: "the flow is at 0.1.9", fix: "Load it again.", current_version: "0.1.9" } }), { status: 409, headers: { "X-Request-Id": "req_1" } });
  const err = await flows.save("flow_1", {}, "0.1.2").catch((e: unknown) => e as Problem);
  expect(err).toMatchObject({ status: 409, code: "version_conflict", message: "the flow is at 0.1.9. Load it again.", requestId: "req_1", more: { current_version: "0.1.9" } });
  expect(flowPath("flow_1", "versions", "0.1.0")).toBe("/v1/flows/flow_1/versions/0.1.0");
  expect(decoded("eyJhIjoiw7wifQ==")).toBe('{"a":"ü"}');
});
