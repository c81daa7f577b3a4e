import { describe, expect, test } from "vitest";
import { copy, parse, paste } from "../clip";
import { difference, same } from "../difference";
import { add, blank, configure, middle, move, place, remove, setEdge, setNode, setOutputs, unused, whole } from "../graph";
import { History } from "../history";
import { layout } from "../layout";
import { outline, search } from "../outline";
import { allowed, body, connect, fits, returns, targets } from "../rules";
import type { Graph } from "../types";
import { drawn, kinds, seeded } from "./kinds";

test("the table has the 24 kinds in nine categories", () => {
  expect(kinds.table.kinds).toHaveLength(24);
  expect(kinds.table.categories).toHaveLength(9);
  expect(new Set(kinds.table.kinds.map((k) => k.category)).size).toBe(9);
});

test("a new node has its ports, its defaults, and a label that is not taken", () => {
  const one = add(blank("x"), kinds.of("tool_plugin")!, { x: 1.4, y: 2.6 });
  const two = add(one.graph, kinds.of("tool_plugin")!, { x: 0, y: 0 });
  expect(two.graph.nodes.map((n) => n.label)).toEqual(["Plugin", "Plugin 2"]);
  expect(two.graph.nodes[0]).toMatchObject({ position: { x: 1, y: 3 }, config: { plugin: "mind", method: "job" }, inputs: [{ id: "in" }], outputs: [{ id: "out" }] });
  expect(one.id).toMatch(/^node_[a-z2-9]{6}$/);
  expect(unused("Train 2", (l) => l === "Train 2" || l === "Train 3")).toBe("Train 4");
});

test("what does not change is the same, and a change changes nothing else", () => {
  const { g, id } = drawn(["a: entry_api", "b: tool_plugin", "c: checkpoint"], ["a > b", "b > c"]);
  const before = JSON.stringify(g);
  const moved = move(g, new Set([id("b")]), 10, -5);
  expect(moved.nodes[0]).toBe(g.nodes[0]);
  expect(moved.edges).toBe(g.edges);
  expect(moved.nodes[1]!.position).toEqual({ x: 310, y: -5 });
  expect(place(g, new Map([[id("b"), g.nodes[1]!.position]]))).toBe(g);
  expect(configure(g, id("b"), "method", "train").nodes[1]!.config).toEqual({ plugin: "mind", method: "train" });
  expect(configure(g, id("b"), "method", undefined).nodes[1]!.config).toEqual({ plugin: "mind" });
  expect(setNode(g, id("c"), { label: "Ask", breakpoint: true }).nodes[2]).toMatchObject({ label: "Ask", breakpoint: true });
  expect(setNode(g, id("c"), { inputs: undefined }).nodes[2]).not.toHaveProperty("inputs");
  expect(setEdge(g, g.edges[0]!.id, { type: "conditional", condition: "x > 1" }).edges[0]).toMatchObject({ type: "conditional", condition: "x > 1" });
  const without = remove(g, new Set([id("b")]));
  expect(without.nodes).toHaveLength(2);
  expect(without.edges).toHaveLength(0);
  expect(remove(g, new Set(["none"]))).toBe(g);
  expect(middle(g, new Set([id("a"), id("b")]))).toEqual({ x: 150, y: 0 });
  expect(JSON.stringify(g)).toBe(before);
});

test("outputs that go take their edges with them", () => {
  const { g, id } = drawn(["a: entry_api", "p: logic_parallel", "b: tool_plugin", "c: tool_plugin"], ["a > p", "p.out_1 > b", "p.out_2 > c"]);
  const one = setOutputs(g, id("p"), [{ id: "out_2", label: "second" }]);
  expect(one.edges.map((e) => e.source.port)).toEqual(["out_request", "out_2"]);
});

test("what is stored incompletely is made whole, and keeps what it has beyond", () => {
  const g = whole({ name: "x", strange: 1, nodes: [{ id: "n", type: "entry_api", position: { x: "3", y: null } }] } as unknown as Partial<Graph>);
  expect(g).toMatchObject({ id: "", edges: [], config: {}, strange: 1, nodes: [{ label: "", position: { x: 3, y: 0 } }] });
});

describe("edges", () => {
  const { g, id } = drawn(
    ["in: entry_api", "ask: checkpoint", "choose: logic_decision", "loop: logic_loop", "work: tool_plugin", "more: tool_plugin", "end: llm_rigid", "both: logic_parallel"],
    ["in > ask", "ask > choose", "choose > loop", "loop.out_body > work", "work > more"],
  );
  const from = (label: string, port = "out") => ({ node: id(label), port });
  const to = (label: string) => ({ node: id(label), port: "in" });
  const why = (a: ReturnType<typeof from>, b: ReturnType<typeof to>) => {
    const x = allowed(g, kinds, a, b);
    return x.ok ? "" : x.why;
  };
  test("lead to no entry", () => expect(why(from("ask"), { node: id("in"), port: "out_request" })).toContain("starts the flow"));
  test("are not drawn twice", () => expect(why(from("ask"), to("choose"))).toContain("already"));
  test("need ports that are there", () => {
    expect(why(from("ask", "none"), to("end"))).toContain("no output none");
    expect(why(from("ask"), { node: id("end"), port: "none" })).toContain("no input none");
    expect(why({ node: "none", port: "out" }, to("end"))).toContain("no such node");
  });
  test("lead back only from the body of a loop, to the loop", () => {
    expect(why(from("work"), to("ask"))).toContain("lead back");
    expect(why(from("ask"), to("ask"))).toContain("lead back");
    expect(allowed(g, kinds, from("more"), to("loop"))).toEqual({ ok: true, type: "sequential" });
    expect(why(from("loop", "out_done"), to("loop"))).toContain("body");
    const closed = connect(g, kinds, from("more"), to("loop"));
    if ("why" in closed) throw new Error(closed.why);
    expect([...returns(closed.graph)]).toEqual([closed.id]);
    // With the way back drawn, the loop still leads on.
    expect(allowed(closed.graph, kinds, from("loop", "out_done"), to("end"))).toEqual({ ok: true, type: "sequential" });
    expect(allowed(closed.graph, kinds, from("loop", "out_done"), to("work")).ok).toBe(true);
    expect(body(closed.graph, id("loop"))).toEqual(new Set([id("work"), id("more")]));
  });
  test("leave a decision with conditions, the second as else", () => {
    expect(allowed(drawn(["d: logic_decision", "e: llm_rigid"]).g, kinds, { node: "x", port: "out" }, to("e")).ok).toBe(false);
    expect(g.edges.find((e) => e.source.node === id("choose"))).toMatchObject({ type: "conditional", condition: "" });
    expect(allowed(g, kinds, from("choose"), to("end"))).toEqual({ ok: true, type: "conditional", condition: "else" });
  });
  test("leave other outputs once", () => {
    expect(why(from("ask"), to("end"))).toContain("Put a decision or a parallel behind it");
    const conditional = setEdge(g, g.edges[1]!.id, { type: "conditional", condition: "ask.resolution == 'yes'" });
    expect(allowed(conditional, kinds, from("ask"), to("end"))).toEqual({ ok: true, type: "conditional", condition: "else" });
  });
  test("join types that fit", () => {
    expect(fits("object", "string")).toBe(true);
    expect(fits("int", "float")).toBe(true);
    expect(fits("string", "int")).toBe(false);
    expect(fits(undefined, "int")).toBe(true);
    const typed = setNode(setNode(g, id("end"), { inputs: [{ id: "in", type: "int" }] }), id("work"), { outputs: [{ id: "text", type: "string" }] });
    const x = allowed(typed, kinds, from("work", "text"), to("end"));
    expect(x.ok ? "" : x.why).toBe("The output is string, and the input takes int.");
  });
  test("have targets to choose from", () => {
    expect(targets(g, kinds, from("more")).map((t) => t.node.label)).toEqual(["loop", "end", "both"]);
  });
});

describe("history", () => {
  test("undoes and redoes, and says what", () => {
    const h = new History(blank("x"));
    const made = add(h.graph, kinds.of("entry_api")!, { x: 0, y: 0 });
    h.apply(made.graph, "add API");
    h.apply(move(h.graph, new Set([made.id]), 10, 0), "move", "nudge");
    h.apply(move(h.graph, new Set([made.id]), 10, 0), "move", "nudge");
    h.seal();
    h.apply(move(h.graph, new Set([made.id]), 10, 0), "move", "nudge");
    expect(h.undoes).toBe("move");
    expect(h.undo().nodes[0]!.position.x).toBe(20);
    expect(h.undo().nodes[0]!.position.x).toBe(0);
    expect(h.redoes).toBe("move");
    expect(h.undo().nodes).toHaveLength(0);
    expect(h.undoes).toBeNull();
    expect(h.undo().nodes).toHaveLength(0);
    expect(h.redo()).toBe(made.graph);
    h.apply({ ...h.graph, name: "y" }, "rename");
    expect(h.redoes).toBeNull();
    expect(h.apply(h.graph, "nothing")).toBe(h.graph);
    expect(h.undoes).toBe("rename");
  });
  test("is bounded", () => {
    const h = new History(blank("0"), 3);
    for (let i = 1; i < 10; i++) h.apply({ ...h.graph, name: String(i) }, "rename");
    for (let i = 0; i < 10; i++) h.undo();
    expect(h.graph.name).toBe("6");
  });
});

describe("the clipboard", () => {
  test("gives what is pasted ids, labels and names of its own", () => {
    const { g, id } = drawn(["a: entry_api", "b: tool_plugin", "c: checkpoint", "d: llm_rigid"], ["a > b", "b > c", "c > d"]);
    const bound = configure(g, id("b"), "result_binding", "model");
    const clip = parse(copy(bound, new Set([id("b"), id("c")])))!;
    expect(clip.edges).toHaveLength(1);
    const once = paste(bound, clip, { x: 24, y: 24 });
    const twice = paste(once.graph, clip, { x: 48, y: 48 });
    expect(new Set(twice.graph.nodes.map((n) => n.id)).size).toBe(8);
    expect(twice.graph.nodes.map((n) => n.label)).toEqual(["a", "b", "c", "d", "b 2", "c 2", "b 3", "c 3"]);
    expect(twice.graph.nodes.map((n) => n.config?.["result_binding"]).filter(Boolean)).toEqual(["model", "model_2", "model_3"]);
    const last = twice.graph.edges.at(-1)!;
    expect(twice.ids.has(last.source.node) && twice.ids.has(last.target.node)).toBe(true);
  });
  test("takes nothing that is no part of a flow", () => {
    for (const text of ["", "hello", "{}", "null", "[1]", '{"mind":"flow","nodes":[],"edges":[]}', '{"mind":"flow","nodes":[{}],"edges":[]}', '{"mind":"flow","nodes":[{"id":"a","type":"x","label":"l","position":{"x":0,"y":0}}],"edges":[null]}'])
      expect(parse(text)).toBeNull();
  });
});

test("layout puts what follows to the right, without overlap, and the same each time", () => {
  const { g, id } = drawn(
    ["in: entry_api", "d: logic_decision", "x: tool_plugin", "y: tool_plugin", "end: llm_rigid", "loop: logic_loop", "w: tool_plugin", "alone: llm_rigid"],
    ["in > d", "d > x", "d > y", "x > end", "y > end", "end > loop", "loop.out_body > w", "w > loop"],
  );
  const at = layout(g, kinds);
  expect(layout(g, kinds)).toEqual(at);
  for (const [a, b] of [["in", "d"], ["d", "x"], ["x", "end"], ["end", "loop"], ["loop", "w"]] as const) expect(at.get(id(b))!.x).toBeGreaterThan(at.get(id(a))!.x);
  expect(new Set([...at.values()].map((p) => `${p.x} ${p.y}`)).size).toBe(8);
  expect(at.get(id("x"))!.x).toBe(at.get(id("y"))!.x);
  expect(Math.abs(at.get(id("x"))!.y - at.get(id("y"))!.y)).toBeGreaterThanOrEqual(56);
});

test("layout ends for circles and is quick for large drawings", () => {
  const { g, id } = drawn(["a: tool_plugin", "b: tool_plugin"], ["a > b"]);
  const circle = { ...g, edges: [...g.edges, { ...g.edges[0]!, id: "back", source: { node: id("b"), port: "out" }, target: { node: id("a"), port: "in" } }] };
  expect(layout(circle, kinds).size).toBe(2);
});

describe("the outline", () => {
  test("follows the flow, with branches inside and what nothing leads to at the end", () => {
    const { g } = drawn(
      ["lost: llm_rigid", "in: entry_api", "d: logic_decision", "x: tool_plugin", "y: tool_plugin", "end: llm_rigid"],
      ["in > d", "d > x", "d > y", "x > end", "y > end"],
    );
    const set = { ...g, edges: g.edges.map((e, i) => (i === 1 ? { ...e, condition: "input.x > 1" } : e)) };
    const lines = outline(set, kinds).map((l) => [l.node.label, l.depth, l.by, l.reached]);
    expect(lines[0]).toEqual(["in", 0, "", true]);
    expect(lines[1]).toEqual(["d", 0, "", true]);
    expect(lines.slice(2, 4)).toEqual([["x", 1, "input.x > 1", true], ["y", 1, "else", true]]);
    const turned = { ...set, edges: [...set.edges].reverse() };
    expect(outline(turned, kinds).map((l) => l.node.label)).toEqual(["in", "d", "x", "y", "end", "lost"]);
    expect(lines[4]).toEqual(["end", 0, "", true]);
    expect(lines[5]).toEqual(["lost", 0, "", false]);
  });
  test("has a loop's body inside it, and what is done after it", () => {
    const { g } = drawn(["in: entry_api", "loop: logic_loop", "w: tool_plugin", "end: llm_rigid"], ["in > loop", "loop.out_body > w", "w > loop", "loop.out_done > end"]);
    expect(outline(g, kinds).map((l) => [l.node.label, l.depth, l.by])).toEqual([["in", 0, ""], ["loop", 0, ""], ["w", 1, "body"], ["end", 0, "done"]]);
  });
  test("has every node once, also in a circle", () => {
    const { g, id } = drawn(["a: tool_plugin", "b: tool_plugin"], ["a > b"]);
    const circle = { ...g, edges: [...g.edges, { ...g.edges[0]!, id: "back", source: { node: id("b"), port: "out" }, target: { node: id("a"), port: "in" } }] };
    expect(outline(circle, kinds).map((l) => l.node.label).sort()).toEqual(["a", "b"]);
  });
  test("is searched by all words, in labels, kinds and config", () => {
    const { g, id } = drawn(["Ask: checkpoint", "Train: tool_plugin"]);
    const set = configure(g, id("Train"), "args", { command_config: { argv: ["python", "train.py"] } });
    expect(search(set, kinds, "PYTHON train").map((n) => n.label)).toEqual(["Train"]);
    expect(search(set, kinds, "checkpoint").map((n) => n.label)).toEqual(["Ask"]);
    expect(search(set, kinds, " ")).toEqual([]);
  });
});

test("a difference names what each side has", () => {
  const { g, id } = drawn(["a: entry_api", "b: tool_plugin", "c: llm_rigid"], ["a > b"]);
  const mine = remove(configure(g, id("b"), "method", "train"), new Set([id("c")]));
  const more = add(mine, kinds.of("checkpoint")!, { x: 0, y: 0 });
  expect(difference(g, { ...more.graph, edges: [], name: "other" })).toEqual({ added: [more.id], removed: [id("c")], changed: [id("b")], edges: [g.edges[0]!.id], rest: true });
  expect(same(g, { ...JSON.parse(JSON.stringify(g)), id: "flow_1", version: "9.9.9" })).toBe(true);
  expect(same(g, { ...g, nodes: g.nodes.map(({ config, ...n }) => ({ ...n, ...(Object.keys(config ?? {}).length ? { config } : {}) })) as Graph["nodes"] })).toBe(true);
});

test("random operations: undoing all of them returns the start, redoing the end", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = seeded(seed);
    const start = drawn(["in: entry_api", "loop: logic_loop", "w: tool_plugin"], ["in > loop", "loop.out_body > w"]).g;
    const first = JSON.stringify(start);
    const h = new History(start);
    const pick = <T,>(all: T[]): T | undefined => all[Math.floor(random() * all.length)];
    const seenStates: string[] = [first];
    for (let i = 0; i < 120; i++) {
      const g = h.graph;
      const n = pick(g.nodes);
      const some = new Set(g.nodes.filter(() => random() < 0.2).map((x) => x.id));
      let next = g;
      switch (Math.floor(random() * 11)) {
        case 0: case 1: next = add(g, pick(kinds.table.kinds)!, { x: random() * 1000, y: random() * 1000 }, random).graph; break;
        case 2: next = move(g, some, Math.round(random() * 100), 8); break;
        case 3: next = remove(g, new Set(n && g.nodes.length > 4 ? [n.id] : []), new Set(g.edges.slice(0, 1).map((e) => e.id))); break;
        case 4: if (n) next = configure(g, n.id, "prompt", `text ${i}`); break;
        case 5: if (n) next = setNode(g, n.id, { label: `label ${i}` }); break;
        case 6: next = paste(g, parse(copy(g, some)) ?? { mind: "flow", nodes: [], edges: [] }, { x: 24, y: 24 }, random).graph; break;
        case 7: next = place(g, layout(g, kinds)); break;
        case 8: { h.undo(); h.redo(); break; }
        default: {
          const [a, b] = [pick(g.nodes), pick(g.nodes)];
          const [out, into] = [a && pick(kinds.outputs(a)), b && pick(kinds.inputs(b))];
          if (a && b && out && into) {
            const made = connect(g, kinds, { node: a.id, port: out.id }, { node: b.id, port: into.id }, random);
            if (!("why" in made)) next = made.graph;
          }
        }
      }
      const before = h.graph;
      const changed = h.apply(next, "change") !== before;
      if (changed) seenStates.push(JSON.stringify(next));
      // Whatever was done, the drawing holds together.
      const ids = new Set(h.graph.nodes.map((x) => x.id));
      expect(ids.size).toBe(h.graph.nodes.length);
      for (const e of h.graph.edges) expect(ids.has(e.source.node) && ids.has(e.target.node)).toBe(true);
    }
    const last = JSON.stringify(h.graph);
    expect(outline(h.graph, kinds)).toHaveLength(h.graph.nodes.length);
    for (let i = seenStates.length - 2; i >= 0; i--) expect(JSON.stringify(h.undo())).toBe(seenStates[i]);
    expect(h.undoes).toBeNull();
    expect(h.graph).toBe(start);
    expect(JSON.stringify(start)).toBe(first);
    while (h.redoes !== null) h.redo();
    expect(JSON.stringify(h.graph)).toBe(last);
  }
});
