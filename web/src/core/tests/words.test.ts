import { describe, expect, test } from "vitest";
import sentences from "../../../../cmd/mind/cli/cluster/testdata/sentences.json";
import { ago, bytes, count, duration, gpus, joined } from "../format";
import { factsOf } from "../obstacles";
import { curl, line, yaml } from "../shell";
import type { Cluster, Obstacle } from "../types";
import { verdict, type Seen } from "../verdict";
import { says } from "../events";
import type { ClusterEvent } from "../types";

test("numbers and times are written for people", () => {
  expect(count(1234567)).toBe("1\u202f234\u202f567");
  expect(count(0.5)).toBe("0.5");
  expect(count(null)).toBe("–");
  expect([0, 0.4, 12.9, 60, 3599, 7260, 90000].map(duration)).toEqual(["0 s", "0.4 s", "12 s", "1 min", "59 min 59 s", "2 h 1 min", "1 d 1 h"]);
  expect(ago("2026-01-01T00:00:00Z", Date.parse("2026-01-01T00:05:10Z"))).toBe("5 min ago");
  expect(bytes(1536)).toBe("1.5 KiB");
  expect(joined(["a", "b", "c"])).toBe("a, b and c");
  expect(gpus({ gpu_count: 16, gpu_type: "H100|A100", node_count: 2 })).toBe("16 × H100 or A100 on 2 nodes");
  expect(gpus({})).toBe("no GPU");
});

test("a line of the command line reads back as its words", () => {
  expect(line("mind", "cancel", "job_1[7]", "--reason", "it's $HOME")).toBe(`mind cancel 'job_1[7]' --reason 'it'\\''s $HOME'`);
  expect(line("a", "")).toBe("a ''");
  expect(curl("POST", "/v1/x", { a: "'" })).toBe(`curl -sS -H "Authorization: Bearer $MIND_TOKEN" -X POST "$MIND_ADDR"/v1/x -d '{"a":"'\\''"}'`);
});

test("YAML quotes what would be read as something else", () => {
  const text = yaml({ name: "yes", argv: ["sh", "-c", "a: b # c"], n: 3, empty: {}, labels: { team: "x", "odd key": "1" }, list: [{ a: 1, b: "c" }] });
  expect(text).toBe('name: "yes"\nargv: [sh, "-c", "a: b # c"]\n"n": 3\nempty: {}\nlabels:\n  team: x\n  "odd key": "1"\nlist:\n  - a: 1\n    b: c');
});

const cluster = (change: Partial<Cluster> = {}): Cluster => ({
  nodes_total: 8, nodes_ready: 8, gpus_total: 64, gpus_allocated: 4, gpus_healthy: 64, gpu_utilization: null, gpu_allocation: 0, jobs: {}, gpu_types: [],
  leader: "c1", coordinators: ["c1", "c2", "c3"].map((id) => ({ id, leader: id === "c1", voter: true, liveness: "alive" })), ...change,
});
const replicas: NonNullable<Seen["replicas"]> = {
  coordinators: [], leader: "c1", term: 2, quorum: 2, voters_reachable: 3, hash_index: 7, hashes: "AGREE", feature_level: 2, answered_by: "c1",
};
const seen = (change: Partial<Seen> = {}): Seen => ({ cluster: cluster(), replicas, now: 100_000, leaderlessSince: null, silentSince: null, ...change });
const dead = (...ids: string[]) => cluster().coordinators.map((c) => ({ ...c, liveness: ids.includes(c.id) ? "dead" : "alive" }));

// One file of cases holds this sentence and that of `mind top` to each other.
test.each(sentences)("mind top says so too: $says", (c) => {
  const change = { cluster: c.cluster as unknown as Cluster, replicas: ("replicas" in c ? c.replicas : undefined) as unknown as Seen["replicas"] };
  expect(verdict(seen(change)).text).toBe(c.says);
});

describe("the verdict says what is wrong first", () => {
  test.each<[string, Partial<Seen>, string]>([
    ["good", {}, "All 3 coordinators agree; all 64 GPUs work; no job waits."],
    ["attention", { cluster: cluster({ gpus_healthy: 62, jobs: { QUEUED: 4, HELD: 9 } }) }, "All 3 coordinators agree; 62 of 64 GPUs work; 4 jobs wait for GPUs."],
    ["attention", { cluster: cluster({ nodes_ready: 7 }) }, "1 node of 8 takes no work; all 3 coordinators agree; all 64 GPUs work; no job waits."],
    ["attention", { cluster: cluster({ gpus_total: 0, gpus_healthy: 0 }) }, "No node has registered a GPU: jobs wait until an agent does."],
    ["bad", { cluster: cluster({ coordinators: dead("c2") }) }, "c2 is dead: the cluster survives no second loss."],
    ["bad", { cluster: cluster({ coordinators: dead("c2", "c3") }) }, "c2 and c3 are dead: no majority is left, and writes wait."],
    ["bad", { cluster: cluster({ leader: "" }), leaderlessSince: 88_000 }, "No leader: writes wait since 12 s."],
    ["bad", { cluster: cluster({ leader: "", coordinators: dead("c1", "c3") }), leaderlessSince: 40_000 }, "c1 and c3 are dead: no majority is left, and writes wait since 1 min."],
    ["bad", { cluster: cluster({ leader: "", coordinators: dead("c1") }), leaderlessSince: 99_000, silentSince: 90_000 }, "The gateway does not answer since 10 s: what you see is old."],
    ["unknown", { cluster: undefined }, "Asking the cluster…"],
  ])("%s: %#", (level, change, text) => {
    expect(verdict(seen(change))).toEqual({ level, text });
  });
  test("replicas that disagree about the same entry", () => {
    const coordinators = cluster().coordinators.map((c) => ({ ...c, state_hash: c.id === "c3" ? "9-x" : "9-y" }));
    const split = { ...replicas, coordinators, hashes: "DIFFER" as const };
    expect(verdict(seen({ replicas: split }))).toEqual({ level: "bad", text: "c1 and c3 disagree about the state after entry 7: keep the logs of both." });
    expect(verdict(seen({ replicas: { ...split, hashes: "UNKNOWN" } })).level).toBe("good");
  });
});

test("obstacles have their facts", () => {
  const o: Obstacle = {
    kind: "NODES", message: "", job_ids: [], node_ids: [], queue: "", tenant: "", resource: "gpus", limit: 16, used: null, needed: 4, until: null, count: null,
    nodes: [{ check: "GPUS_IN_USE", nodes: 4, examples: ["n1", "n2"] }],
  };
  expect(factsOf(o, 0)).toEqual([
    { name: "4 nodes", value: "with GPUs in use: n1, n2, …" },
    { name: "limit", value: "16 GPUs" },
    { name: "needs", value: "4 GPUs" },
  ]);
});

test("events are sentences, or nothing", () => {
  const e = { topic: "job", job_id: "job_1", status_from: "QUEUED", status_to: "SCHEDULING", nodes: ["n1"], transfer: "", stopping: null } as unknown as ClusterEvent;
  expect(says(e)).toEqual({ before: "", job: "job_1", after: " got its places on n1" });
  expect(says({ ...e, topic: "lease" })).toBeNull();
});
