import { expect, test } from "vitest";
import { lanesOf } from "../lanes";
import { body, command, blank, pairs, requestOf, seconds } from "../request";
import { curve, names, value } from "../curves";
import type { Job, Series } from "../types";

test("lanes follow one another, and gaps stand between them", () => {
  const f = (term: number, leader: string, previous_leader: string, at: string, stood_still_seconds: number | null) => ({ term, leader, previous_leader, index: term, at, stood_still_seconds, jobs_running: 0, jobs_harmed: 0 });
  const l = lanesOf([f(4, "c1", "c2", "2026-01-01T02:00:00Z", 0.9), f(3, "c2", "c1", "2026-01-01T01:00:00Z", 1.2), f(2, "c1", "", "2026-01-01T00:00:00Z", null)], ["c1", "c2", "c3"], "c1", Date.parse("2026-01-01T03:00:00Z"));
  expect(l.lanes.map((x) => [x.id, x.led.map((s) => s.term)])).toEqual([["c1", [2, 4]], ["c2", [3]], ["c3", []]]);
  const all = l.lanes.flatMap((x) => x.led).sort((a, b) => a.from - b.from);
  expect(all[0]!.from).toBe(0);
  expect(all.at(-1)!.to).toBeCloseTo(1);
  expect(all[1]!.from).toBe(all[0]!.to);
  expect(l.gaps.map((g) => [g.term, g.seconds])).toEqual([[3, 1.2], [4, 0.9]]);
});

test("a form is a request and a command that say the same", () => {
  const f = { ...blank, name: "a b", command: "python x.py", gpus: "8", type: "H100", limit: "1h30m", labels: "team = x\nbad", priority: "0" };
  expect(body(f)).toEqual({
    name: "a b", command_config: { argv: ["sh", "-c", "python x.py"], cwd: "/tmp" }, resource_config: { gpu_count: 8, gpu_type: "H100" },
    scheduling_config: { priority: 0, max_runtime_seconds: 5400 }, labels: { team: " x" },
  });
  expect(command(f)).toBe("mind submit --name 'a b' --gpus 8 --gpu-type H100 --priority 0 --time-limit 1h30m --cwd /tmp --label 'team= x' -- sh -c 'python x.py'");
  expect(seconds("soon")).toBeNaN();
  expect(pairs("")).toBeUndefined();
});

test("a specification keeps what says something", () => {
  const j = { name: "x", command_config: { argv: ["a"], command: "", cwd: "/", environment: {} }, scheduling_config: { priority: 0, max_retries: 0, restartable: false, queue: "" }, labels: {} };
  expect(requestOf(j as unknown as Job)).toEqual({ name: "x", command_config: { argv: ["a"], cwd: "/" }, scheduling_config: { priority: 0, restartable: false } });
});

test("curves keep attempts apart and spikes in", () => {
  const point = (step: number, last: number, max = last) => ({ time: "2026-01-01T00:00:00Z", step, min: last, max, mean: last, last });
  const s = (name: string, attempt: number, rank: number, points: Series["points"], unit = ""): Series => ({ name, attempt, rank, unit, not_finite: 0, points });
  const all = [s("loss", 2, 0, [point(2, 1, 9)]), s("loss", 1, 1, [point(1, 5)]), s("loss", 1, 0, [point(1, 3), point(2, 2)]), s("gpu", 1, 0, [point(1, 0.5)], "ratio"), s("acc", 1, 0, [])];
  expect(names(all)).toEqual({ reported: ["loss", "acc"], measured: ["gpu"] });
  const c = curve(all, "loss", "step");
  expect(c.x).toEqual([1, 2]);
  expect(c.lines.map((l) => l.last)).toEqual([[3, 2], [null, 1]]);
  expect(c.lines[1]!.max).toEqual([null, 9]);
  expect(c.newest).toBe(1);
  expect([value(0.25, "ratio"), value(2.5, ""), value(0.0002441, "")]).toEqual(["25 %", "2.5", "2.44e-4"]);
});
