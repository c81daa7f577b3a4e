import { describe, expect, test, vi } from "vitest";
import { Drafts, type Store } from "../drafts";
import { json, read, write } from "../fields";
import { along, around, between, boxOf, curve, fit, nearest, overlaps, portAt, seen, toDrawing, under, width, zoomed } from "../geometry";
import { blank, setNode } from "../graph";
import { Live } from "../live";
import type { Field } from "../types";
import { drawn, kinds } from "./kinds";

describe("the view", () => {
  test("shows what fits, and zooms around the pointer", () => {
    const { g } = drawn(["a: entry_api", "b: tool_plugin", "c: llm_rigid"]);
    const box = around(kinds, g.nodes);
    expect(box).toEqual({ x: 0, y: 0, width: 600 + width, height: 56 });
    const v = fit(box, { width: 500, height: 400 });
    expect(v.k).toBeCloseTo(428 / 808);
    const m = toDrawing(v, { x: 250, y: 200 });
    expect([m.x, m.y].map(Math.round)).toEqual([404, 28]);
    const at = { x: 100, y: 50 };
    const z = zoomed(v, 2, at);
    expect(toDrawing(z, at).x).toBeCloseTo(toDrawing(v, at).x);
    expect(zoomed(v, 1e9, at).k).toBe(2.5);
    expect(zoomed(v, 1e-9, at).k).toBe(0.05);
    expect(fit(around(kinds, []), { width: 500, height: 400 })).toEqual({ x: 250, y: 200, k: 1 });
    expect(seen({ x: -100, y: -20, k: 2 }, { width: 200, height: 100 })).toEqual({ x: 50, y: 10, width: 100, height: 50 });
    expect(overlaps(between({ x: 5, y: 5 }, { x: -5, y: -5 }), { x: 4, y: 4, width: 1, height: 1 })).toBe(true);
  });
});

describe("under a point", () => {
  const { g, id } = drawn(["a: entry_api", "b: logic_loop", "c: tool_plugin"], ["a > b", "b.out_body > c"]);
  const b = g.nodes[1]!;
  test("are ports before nodes, and edges between", () => {
    const body = portAt(kinds, b, "out", "out_body")!;
    const done = portAt(kinds, b, "out", "out_done")!;
    expect(done.y - body.y).toBe(22);
    expect(under(g, kinds, { x: 300 + body.x + 4, y: body.y })).toEqual({ on: "port", side: "out", end: { node: id("b"), port: "out_body" } });
    expect(under(g, kinds, { x: 300, y: boxOf(kinds, b).height / 2 })).toMatchObject({ on: "port", side: "in" });
    expect(under(g, kinds, { x: 400, y: 20 })).toEqual({ on: "node", id: id("b") });
    expect(under(g, kinds, { x: 254, y: 34 })).toEqual({ on: "edge", id: g.edges[0]!.id });
    expect(under(g, kinds, { x: 254, y: 300 })).toBeNull();
  });
  test("is the node that is drawn last", () => {
    const over = setNode(g, id("c"), { position: { x: 350, y: 10 } });
    expect(under(over, kinds, { x: 400, y: 40 })).toEqual({ on: "node", id: id("c") });
  });
  test("curves begin and end at their ports", () => {
    const c = curve({ x: 0, y: 0 }, { x: -200, y: 50 });
    expect(along(c, 0)).toEqual({ x: 0, y: 0 });
    expect(along(c, 1)).toEqual({ x: -200, y: 50 });
    expect(c[1].x).toBeGreaterThan(0);
  });
  test("keys find the nearest node in a direction", () => {
    expect(nearest(g, id("a"), "right")).toBe(id("b"));
    expect(nearest(g, id("c"), "left")).toBe(id("b"));
    expect(nearest(g, id("a"), "left")).toBeNull();
  });
});

describe("fields", () => {
  const field = (type: Field["type"], more: Partial<Field> = {}): Field => ({ name: "f", type, help: "", ...more });
  const back = (f: Field, value: unknown) => read(f, write(f.type, value), json(f.type, value));
  test("read back what they write", () => {
    const all: [Field["type"], unknown][] = [
      ["text", "hello"], ["template", "a {{b}}\nc"], ["expression", "x > 1"], ["expression", 5], ["expression", { text: "x" }], ["int", 12], ["duration", "5m"], ["duration", 90], ["choice", "POST"],
      ["list", ["a", "b c"]], ["list", ["a\nb", 3]], ["list", [{ id: "x" }]], ["map", { a: "string", b: "enum[x, y]" }], ["map", { a: 1 }], ["bindings", { x: "input.y == 1" }],
      ["any", { argv: ["sh", "-c", "echo {{input.x}}"] }], ["any", "text"], ["any", 3], ["any", "{{input}}"], ["any", null], ["list", []],
    ];
    for (const [type, value] of all) {
      const empty = value === null || (Array.isArray(value) && value.length === 0);
      expect(back(field(type), value), `${type} ${JSON.stringify(value)}`).toEqual(empty ? { value: undefined } : { value });
    }
  });
  test("say what is wrong", () => {
    const wrong = (f: Field, text: string, asJson = false) => {
      const r = read(f, text, asJson);
      return "problem" in r ? r.problem : "";
    };
    expect(wrong(field("int", { min: 1, max: 5 }), "6")).toBe("Write a number from 1 to 5.");
    expect(wrong(field("int"), "1.5")).toBe("Write a whole number.");
    expect(wrong(field("duration"), "soon")).toContain("90s");
    expect(wrong(field("name"), "a b")).toContain("letters");
    expect(wrong(field("bindings"), "a")).toContain("name = value");
    expect(wrong(field("any"), "{")).toContain("no JSON yet");
    expect(wrong(field("list"), "[1", true)).toContain("no JSON yet");
    expect(read(field("any"), "{{ input }}", true)).toEqual({ value: "{{ input }}" });
    expect(read(field("text"), "  ", false)).toEqual({ value: undefined });
  });
});

describe("live answers", () => {
  test("come for the newest drawing, after a pause, and old ones are dropped", async () => {
    vi.useFakeTimers();
    const waiting: { q: string; answer: (a: string) => void; signal: AbortSignal }[] = [];
    const told: string[] = [];
    const live = new Live<string, string>((q, signal) => new Promise((answer) => waiting.push({ q, answer, signal })), (a) => told.push(a), () => undefined, 500);
    live.changed("one");
    vi.advanceTimersByTime(499);
    live.changed("two");
    vi.advanceTimersByTime(499);
    expect(waiting).toHaveLength(0);
    vi.advanceTimersByTime(1);
    expect(waiting.map((w) => w.q)).toEqual(["two"]);
    live.changed("three");
    vi.advanceTimersByTime(500);
    expect(waiting[0]!.signal.aborted).toBe(true);
    waiting[1]!.answer("to three");
    waiting[0]!.answer("to two");
    await vi.runAllTimersAsync();
    expect(told).toEqual(["to three"]);
    live.stop();
    live.changed("four");
    vi.useRealTimers();
  });
  test("tell of failures", async () => {
    const failed = vi.fn();
    const live = new Live<string, string>(async () => { throw new Error("away"); }, () => undefined, failed);
    await live.now("x");
    expect(failed).toHaveBeenCalledOnce();
  });
});

describe("drafts", () => {
  const memory = (): Store & { all: Map<string, string> } => {
    const all = new Map<string, string>();
    return { all, get length() { return all.size; }, key: (i) => [...all.keys()][i] ?? null, getItem: (k) => all.get(k) ?? null, setItem: (k, v) => void all.set(k, v), removeItem: (k) => void all.delete(k) };
  };
  test("are kept for each user and flow, and dropped", () => {
    const store = memory();
    const mine = new Drafts(store, "t/ada");
    expect(mine.save("flow_1", { based_on: "0.1.0", at: 5, content: blank("x") })).toBe(true);
    expect(mine.load("flow_1")).toMatchObject({ based_on: "0.1.0", at: 5, content: { name: "x" } });
    expect(new Drafts(store, "t/bob").load("flow_1")).toBeNull();
    mine.drop("flow_1");
    expect(mine.load("flow_1")).toBeNull();
  });
  test("are the newest twenty, and nothing else is removed", () => {
    const store = memory();
    store.setItem("mind.theme", "dark");
    const mine = new Drafts(store, "u");
    for (let i = 0; i < 30; i++) mine.save(`flow_${i}`, { based_on: "", at: i, content: blank("x") });
    expect(store.all.size).toBe(21);
    expect(mine.load("flow_9")).toBeNull();
    expect(mine.load("flow_10")).not.toBeNull();
  });
  test("that cannot be kept or read are said so", () => {
    const store = memory();
    const mine = new Drafts({ ...store, length: 0, setItem: () => { throw new Error("full"); }, getItem: () => "{" }, "u");
    expect(mine.save("f", { based_on: "", at: 1, content: blank("x") })).toBe(false);
    expect(mine.load("f")).toBeNull();
  });
});
