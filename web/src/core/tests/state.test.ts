import { describe, expect, test, vi } from "vitest";
import { Client, Problem, path, query } from "../api";
import { command, format, parse } from "../filters";
import { hit, layout, nodesOf, totals } from "../map";
import { Queries, type Entry } from "../queries";
import { follow } from "../stream";

test("filters survive the way through the address", () => {
  const text = "search=a+b&status=QUEUED&status=FAILED&queue=q&user=me&label=team%3Dx&order_by=name";
  expect(format(parse(text))).toBe(text);
  expect(format(parse("status=NONSENSE&order_by=x&label=bad"))).toBe("");
  expect(command(parse("status=FAILED&queue=q"))).toEqual(["mind", "jobs", "--status", "FAILED", "--queue", "q"]);
});

test("the map reads cells and finds nodes by place", () => {
  const nodes = nodesOf({ node_ids: ["n1", "n2"], states: ["READY", "LOST"], gpu_types: ["H100", "A100|H100"], domains: ["", ""], gpus: [".mox", "...."], utilization: ["-90-", "----"] });
  expect(nodes[0]).toMatchObject({ id: "n1", cells: ["free", "mine", "others", "broken"], busy: [-1, 9, 0, -1] });
  expect(totals(nodes)).toEqual({ free: 5, mine: 1, others: 1, broken: 1 });
  const l = layout(nodes, 1000);
  expect(hit(l, l.placed[1]!.x + 1, 1)?.id).toBe("n2");
  expect(hit(l, 5000, 1)).toBeUndefined();
  const many = layout(Array.from({ length: 1250 }, (_, i) => ({ ...nodes[0]!, id: `n${i}`, cells: Array(8).fill("free") })), 1300);
  expect(many.height).toBeLessThan(1000);
});

const envelope = (data: unknown, status = 200, index = "7") =>
  new Response(JSON.stringify(status < 400 ? { data } : { error: data }), { status, headers: { "X-Mind-Index": index } });
const hooks = () => ({ answered: vi.fn(), silent: vi.fn(), unauthorized: vi.fn(), leaderless: vi.fn(() => false) });

describe("the client", () => {
  test("repeats a write with its key when the answer was lost", async () => {
    const keys: unknown[] = [];
    let calls = 0;
    const client = new Client(hooks(), async (_, init) => {
      keys.push((init!.headers as Record<string, string>)["Idempotency-Key"]);
      if (++calls === 1) throw new TypeError("reset");
      if (calls === 2) return envelope({ code: "UNAVAILABLE", message: "" }, 503);
      return envelope({ job_id: "job_1" }, 201);
    }, async () => undefined);
    expect((await client.write<{ job_id: string }>("POST", "/x", {})).data.job_id).toBe("job_1");
    expect(keys.length).toBe(3);
    expect(new Set(keys).size).toBe(1);
  });
  test("does not repeat what was refused, and names a missing permission", async () => {
    const h = hooks();
    const fetch = vi.fn(async () => envelope({ code: "AUTHZ_PERMISSION_DENIED", message: "this needs the permission scaimind:manage" }, 403));
    const problem = await new Client(h, fetch).write("POST", "/x").catch((e: Problem) => e);
    expect((problem as Problem).missing).toBe("scaimind:manage");
    expect(fetch).toHaveBeenCalledTimes(1);
  });
  test("reads from any coordinator while nobody leads", async () => {
    const h = hooks();
    h.leaderless.mockReturnValue(true);
    const fetch = vi.fn(async (_: string, _init?: RequestInit) => envelope({}));
    await new Client(h, fetch).get("/x");
    expect((fetch.mock.calls[0]![1]!.headers as Record<string, string>)["X-Mind-Consistency"]).toBe("stale");
    expect(h.answered).toHaveBeenCalledWith(7);
  });
  test("escapes what goes into paths", () => {
    expect(path("jobs", "a/b[7]?")).toBe("/v1/modules/scaimind/jobs/a%2Fb%5B7%5D%3F");
    expect(query({ a: ["1", "2"], b: "", c: undefined, d: "x y" })).toBe("?a=1&a=2&d=x+y");
  });
});

describe("queries", () => {
  test("share one request, poll, keep data through errors, and end", async () => {
    vi.useFakeTimers();
    let calls = 0;
    const q = new Queries(async () => {
      if (++calls === 2) throw new Problem(503, "UNAVAILABLE", "later");
      return { data: { calls }, index: calls };
    });
    const told: Entry<{ calls: number }>[] = [];
    const stop = q.watch<{ calls: number }>("/a", 1000, (e) => told.push(e));
    const stopOther = q.watch("/a", 5000, () => undefined);
    await vi.advanceTimersByTimeAsync(0);
    expect(calls).toBe(1);
    await vi.advanceTimersByTimeAsync(1000);
    expect(told.at(-1)).toMatchObject({ data: { calls: 1 }, error: { status: 503 } });
    q.refresh("/a");
    await vi.advanceTimersByTimeAsync(0);
    expect(told.at(-1)).toMatchObject({ data: { calls: 3 }, error: undefined });
    q.setActive(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(calls).toBe(3);
    q.setActive(true);
    stop();
    stopOther();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(calls).toBe(3);
    vi.useRealTimers();
  });
});

const streamOf = (text: string) => new Response(text, { headers: { "Content-Type": "text/event-stream" } });

test("a stream goes on after its last event, through failures, to its end", async () => {
  const asked: (string | undefined)[] = [];
  const answers = [
    () => streamOf("id: 1\nevent: log\ndata: a\n\nid: 2\nevent: log\ndata: b\n\n"),
    () => { throw new TypeError("reset"); },
    () => envelope({ code: "UNAVAILABLE", message: "" }, 503),
    () => streamOf('id: 3\nevent: log\ndata: c\n\nid: 4\n\nevent: error\ndata: {"error":"stream ended"}\n\n'),
  ];
  const got: string[] = [];
  const end = await follow({
    url: () => "/s", headers: () => ({}), signal: new AbortController().signal, pause: async () => undefined,
    fetch: async (_, init) => {
      asked.push((init.headers as Record<string, string>)["Last-Event-ID"]);
      return answers[asked.length - 1]!();
    },
    event: (_, data) => got.push(data),
  });
  expect(end).toBeNull();
  expect(got).toEqual(["a", "b", "c"]);
  expect(asked).toEqual([undefined, "2", "2", "2"]);
});

test("a stream that is refused ends with the reason", async () => {
  const end = await follow({
    url: () => "/s", headers: () => ({}), signal: new AbortController().signal,
    fetch: async () => streamOf('event: error\ndata: {"error":"x","code":"AUTH_TOKEN_INVALID","message":"gone"}\n\n'), event: () => undefined,
  });
  expect(end).toMatchObject({ code: "AUTH_TOKEN_INVALID", message: "gone" });
});
