import { describe, expect, test } from "vitest";
import { bound, complete, unknown } from "../complete";
import { configure } from "../graph";
import { drawn, kinds } from "./kinds";

const functions = kinds.table.functions;

function example() {
  const { g, id } = drawn(["Start: entry_api", "Train it: tool_plugin", "Ask: checkpoint", "Judge: llm_flexible", "Limit: data_variable_set", "Each: logic_loop"]);
  let made = configure(g, id("Judge"), "output_schema", { score: "float", team: "enum[a, b]", tags: "array" });
  made = configure(made, id("Limit"), "name", "limit");
  made = configure(made, id("Ask"), "result_binding", "answer");
  return { g: { ...made, variables: [{ name: "most", type: "int" }], tests: [{ name: "t", input: { wanted: 1, who: "x" } }] }, id };
}

const at = (text: string, template = false, asked = false) => {
  const { g } = example();
  const where = text.indexOf("|");
  return complete(text.replace("|", ""), where, template, bound(g, kinds), functions, asked);
};
const labels = (text: string, template = false, asked = false) => at(text, template, asked)?.options.map((o) => o.label) ?? null;

describe("completion", () => {
  test("knows the names of the flow, by binding, label and id", () => {
    const { g, id } = example();
    const names = bound(g, kinds).map((b) => b.name);
    for (const name of ["input", "trigger", "request", "most", "train_it", "answer", "judge", "limit", "item", "index", id("Train it"), id("Ask")]) expect(names).toContain(name);
    expect(names).not.toContain("ask");
    expect(names.indexOf("train_it")).toBeLessThan(names.indexOf(id("Train it")));
  });

  test("offers fields and methods by the type of what is before the dot", () => {
    expect(labels("answer.|")).toEqual(expect.arrayContaining(["resolution", "resolved_by", "comment", "length"]));
    expect(labels("answer.|")).not.toContain("upper");
    expect(labels("train_it.st|")).toContain("status");
    expect(labels("judge.|")).toEqual(expect.arrayContaining(["score", "team", "tags"]));
    expect(labels("judge.team.|")).toEqual(expect.arrayContaining(["upper", "contains"]));
    expect(labels("judge.team.|")).not.toContain("filter");
    expect(labels("judge.tags.|")).toContain("filter");
    expect(labels("judge.score.|")).toEqual([]);
    expect(labels('"a".|')).toContain("upper");
    expect(labels("request.|")).toEqual(expect.arrayContaining(["wanted", "who"]));
    expect(labels("1.|")).toBeNull();
  });

  test("replaces the word, writes calls, and shows signatures", () => {
    const c = at("limit > si|")!;
    expect(c.from).toBe(8);
    expect(c.options.find((o) => o.label === "size")).toMatchObject({ write: "size(", detail: "size(x): int" });
    expect(at("judge.team.|")!.options.find((o) => o.label === "upper")).toMatchObject({ write: "upper()", detail: "upper(): string" });
  });

  test("offers the element of a macro, and nothing in strings or unasked", () => {
    expect(labels("judge.tags.filter(tag, t|")).toContain("tag");
    expect(labels('answer.resolution == "pub|')).toBeNull();
    expect(labels("limit > |")).toBeNull();
    expect(labels("limit > |", false, true)).toContain("limit");
  });

  test("speaks in the places of a template only", () => {
    expect(labels("Dear li|", true)).toBeNull();
    expect(labels("Dear {{li|", true)).toContain("limit");
    expect(labels("Dear {{limit}} an|", true)).toBeNull();
    expect(at("Dear {{answer.|}}", true)!.from).toBe(14);
  });

  test("names that nothing binds", () => {
    const { g } = example();
    expect(unknown([{ name: "limit", from: 0, to: 5 }, { name: "limmit", from: 8, to: 14 }], bound(g, kinds))).toEqual([{ from: 8, to: 14, message: "Nothing in the flow is called limmit." }]);
  });
});
