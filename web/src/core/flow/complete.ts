// Which names, fields and functions an expression can use, and which of them fit where one types.
import type { Kinds } from "./graph";
import { named } from "./rules";
import type { FlowNode, Graph, ResultField, Signature } from "./types";

/** Bound is a name that expressions can use. */
export interface Bound {
  name: string;
  /** Where its value comes from, for people. */
  from: string;
  type: string;
  fields: ResultField[];
}

const typeOf = (v: unknown): string => (Array.isArray(v) ? "list" : v === null || v === undefined ? "any" : typeof v === "number" ? (Number.isInteger(v) ? "int" : "double") : typeof v === "boolean" ? "bool" : typeof v === "object" ? "map" : "string");
const short: Record<string, string> = { float: "double", array: "list", object: "map", number: "double", boolean: "bool" };
const slug = (label: string) => label.toLowerCase().replace(/[^a-z0-9]+/g, "_").slice(0, 48).replace(/^_+|_+$/g, "").replace(/^(?=\d)/, "_");

/** bound lists the names of a flow: its input, its variables, and the results of its nodes by name and id. */
export function bound(g: Graph, kinds: Kinds): Bound[] {
  const all = new Map<string, Bound>();
  const add = (name: unknown, from: string, type = "any", fields: ResultField[] = []) => {
    if (typeof name === "string" && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !all.has(name)) all.set(name, { name, from, type, fields });
  };
  const tests = Array.isArray(g["tests"]) ? (g["tests"] as { input?: unknown }[]) : [];
  const given = new Map<string, ResultField>();
  for (const t of tests) {
    if (typeof t?.input === "object" && t.input && !Array.isArray(t.input)) for (const [name, v] of Object.entries(t.input)) given.set(name, { name, type: typeOf(v), help: "in the input of a test" });
  }
  const input = [...given.values()];
  add("input", "the input of the run", "any", input);
  add("trigger", "that started the run", "any", input);
  for (const v of (Array.isArray(g["variables"]) ? g["variables"] : []) as { name?: string; type?: string }[]) add(v?.name, "a variable of the flow", short[v?.type ?? ""] ?? v?.type ?? "any");
  const later: [string, FlowNode][] = [];
  for (const n of g.nodes) {
    const c = n.config ?? {};
    const fields = result(n, kinds);
    const type = fields.length > 0 ? "map" : n.type === "llm_rigid" ? "string" : "any";
    if (kinds.entry(n)) {
      for (const p of kinds.outputs(n).slice(0, 1)) add(slug(p.label ?? ""), `the input at ${named(n)}`, "any", input);
      add(n.id, `the input at ${named(n)}`, "any", input);
      continue;
    }
    const from = `the result of ${named(n)}`;
    if (n.type === "data_variable_set") add(c["name"], `set by ${named(n)}`);
    if (n.type === "logic_loop" && c["style"] !== "while") {
      add(c["var"] ?? "item", `the item of ${named(n)}`);
      add("index", `the number of the item of ${named(n)}`, "int");
    }
    if (typeof c["result_binding"] === "string" && c["result_binding"]) add(c["result_binding"], from, type, fields);
    else if (n.type !== "data_variable_set") add(slug(n.label), from, type, fields);
    later.push([from, n]);
  }
  // Ids are what people look for last.
  for (const [from, n] of later) add(n.id, from, result(n, kinds).length > 0 ? "map" : "any", result(n, kinds));
  return [...all.values()];
}

/** result has the fields of the result of a node, as far as they are known. */
function result(n: FlowNode, kinds: Kinds): ResultField[] {
  const c = n.config ?? {};
  const schema = c["output_schema"];
  if (schema && typeof schema === "object" && !Array.isArray(schema)) {
    return Object.entries(schema).map(([name, t]) => {
      const type = String(t).split(/[<[]/)[0]!.trim();
      return { name, type: type === "enum" ? "string" : (short[type] ?? type), help: `${t}` };
    });
  }
  if (n.type === "tool_plugin" && (c["plugin"] ?? "mind") !== "mind") return [];
  return kinds.of(n.type)?.result ?? [];
}

export interface Option {
  label: string;
  /** What is written instead of the label. */
  write?: string;
  detail: string;
  info: string;
  kind: "name" | "field" | "function" | "word";
}

export interface Options {
  from: number;
  options: Option[];
}

const words: Option[] = ["true", "false", "null"].map((w) => ({ label: w, detail: "", info: "", kind: "word" }));
const macro = /\.(?:all|exists|exists_one|filter|map)\(\s*([A-Za-z_]\w*)\s*,/g;

/** within is where the expression begins in which a place of a template is; null: the place is text. */
function within(text: string, at: number): number | null {
  const open = text.lastIndexOf("{{", at - 2);
  return open < 0 || text.slice(open, at).includes("}}") ? null : open + 2;
}

/** quoted says whether a place is in a string. */
function quoted(text: string): boolean {
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    if (quote && text[i] === "\\") i++;
    else if (quote ? text[i] === quote : text[i] === '"' || text[i] === "'") quote = quote ? "" : text[i]!;
  }
  return quote !== "";
}

/** complete lists what may stand at a place; null: nothing can be said there. asked is false while somebody only types. */
export function complete(text: string, at: number, template: boolean, names: Bound[], functions: Signature[], asked: boolean): Options | null {
  const start = template ? within(text, at) : 0;
  if (start === null) return null;
  const before = text.slice(start, at);
  if (quoted(before)) return null;
  const word = /[A-Za-z_]?\w*$/.exec(before)![0];
  const from = at - word.length;
  const called = (f: Signature): Option => ({ label: f.name, write: f.of && /\(\)$/.test(f.call) ? `${f.name}()` : `${f.name}(`, detail: `${f.call.replace(/^\w+\./, "")}: ${f.returns}`, info: f.help, kind: "function" });
  const left = before.slice(0, before.length - word.length);
  if (/\.$/.test(left)) {
    if (/(^|[^\w)\]"'])\d*\.$/.test(left)) return null; // a number
    const path = /([A-Za-z_]\w*)\.$/.exec(left);
    const alone = path && !/[\w)\]]\s*\.\s*[A-Za-z_]\w*\.$/.test(left);
    const base = alone ? names.find((n) => n.name === path[1]) : undefined;
    const field = !alone && path ? fieldOf(left, names) : undefined;
    const type = base?.type ?? field?.type ?? (/["']\s*\.$/.test(left) ? "string" : /\]\s*\.$/.test(left) ? "any" : "any");
    const methods = functions.filter((f) => f.of && (type === "any" || f.of === type || (type === "map" && f.of === "list")));
    const fields: Option[] = (base?.fields ?? []).map((f) => ({ label: f.name, detail: f.type, info: f.help, kind: "field" }));
    const length: Option[] = ["any", "string", "list", "map"].includes(type) ? [{ label: "length", detail: "int", info: "the number of characters, elements or entries", kind: "field" }] : [];
    return { from, options: [...fields, ...length, ...methods.map(called)] };
  }
  if (word === "" && !asked) return null;
  if (/^\d/.test(word)) return null;
  const inner: Option[] = [...new Set([...before.matchAll(macro)].map((m) => m[1]!))].map((label) => ({ label, detail: "the element", info: "", kind: "name" }));
  const own: Option[] = names.map((n) => ({ label: n.name, detail: n.type === "any" ? "" : n.type, info: n.from, kind: "name" }));
  return { from, options: [...inner, ...own, ...functions.filter((f) => !f.of).map(called), ...words] };
}

// fieldOf is the field that a.b. ends with.
function fieldOf(left: string, names: Bound[]): ResultField | undefined {
  const m = /(?:^|[^\w.)\]])([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)\.$/.exec(left);
  return m ? names.find((n) => n.name === m[1])?.fields.find((f) => f.name === m[2]) : undefined;
}

/** unknown has the names that nothing in the flow binds, each with a message. Where a name is bound is for the gateway to say. */
export function unknown(uses: { name: string; from: number; to: number }[], names: Bound[]): { from: number; to: number; message: string }[] {
  const known = new Set([...names.map((n) => n.name), "error", "result", "item", "index"]);
  return uses.filter((u) => !known.has(u.name)).map(({ from, to, name }) => ({ from, to, message: `Nothing in the flow is called ${name}.` }));
}
