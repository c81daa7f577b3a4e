import { line, yaml } from "./shell";
import type { Job } from "./types";

/** Form is what the page for submitting asks; texts are as they were typed. */
export interface Form {
  name: string;
  command: string;
  cwd: string;
  gpus: string;
  type: string;
  nodes: string;
  queue: string;
  priority: string;
  retries: string;
  limit: string;
  labels: string;
  environment: string;
}

export const blank: Form = {
  name: "", command: "", cwd: "/tmp", gpus: "1", type: "", nodes: "1", queue: "default", priority: "5", retries: "0", limit: "", labels: "", environment: "",
};

export type Body = Record<string, unknown>;

/** body makes the request of a form. What is left as it is by default is left out. */
export function body(f: Form): Body {
  const number = (text: string, fallback: number) => (text.trim() === "" || Number(text) === fallback ? undefined : Number(text));
  return pruned({
    name: f.name.trim(),
    command_config: { argv: ["sh", "-c", f.command], cwd: f.cwd.trim() || undefined, environment: pairs(f.environment) },
    resource_config: { gpu_count: number(f.gpus, 0), gpu_type: f.type || undefined, node_count: number(f.nodes, 1) },
    scheduling_config: {
      queue: f.queue === "default" ? undefined : f.queue, priority: number(f.priority, 5), max_retries: number(f.retries, 0), max_runtime_seconds: seconds(f.limit),
    },
    labels: pairs(f.labels),
  });
}

/** command is the line of the command line that submits the same. */
export function command(f: Form): string {
  const words = ["mind", "submit", "--name", f.name.trim() || "NAME"];
  const flag = (name: string, value: string, fallback: string) => {
    if (value.trim() !== "" && value.trim() !== fallback) words.push(name, value.trim());
  };
  flag("--gpus", f.gpus, "0");
  flag("--gpu-type", f.type, "");
  flag("--nodes", f.nodes, "1");
  flag("--queue", f.queue, "default");
  flag("--priority", f.priority, "5");
  flag("--max-retries", f.retries, "0");
  flag("--time-limit", f.limit, "");
  flag("--cwd", f.cwd, "");
  for (const [k, v] of Object.entries(pairs(f.environment) ?? {})) words.push("--env", `${k}=${v}`);
  for (const [k, v] of Object.entries(pairs(f.labels) ?? {})) words.push("--label", `${k}=${v}`);
  return line(...words, "--", "sh", "-c", f.command);
}

/** pairs reads KEY=VALUE, one on each line. */
export function pairs(text: string): Record<string, string> | undefined {
  const found = text.split("\n").map((l) => l.trim()).filter((l) => l.includes("=")).map((l) => [l.slice(0, l.indexOf("=")).trim(), l.slice(l.indexOf("=") + 1)] as const);
  return found.length > 0 ? Object.fromEntries(found) : undefined;
}

/** seconds reads a duration such as 90, 30m, 2h or 1h30m. */
export function seconds(text: string): number | undefined {
  const t = text.trim();
  if (t === "") return undefined;
  if (/^\d+$/.test(t)) return Number(t);
  const m = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(t);
  return m ? Number(m[1] ?? 0) * 3600 + Number(m[2] ?? 0) * 60 + Number(m[3] ?? 0) : NaN;
}

// An object without what is not given, down to the last one.
function pruned(o: Body): Body {
  const kept: Body = {};
  for (const [k, v] of Object.entries(o)) {
    const value = v && typeof v === "object" && !Array.isArray(v) ? pruned(v as Body) : v;
    const nothing = value === undefined || (k !== "name" && value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0);
    if (!nothing) kept[k] = value;
  }
  return kept;
}

/** requestOf is the request that would submit a job again. */
export function requestOf(j: Job): Body {
  const all: Body = {};
  for (const part of ["name", "command_config", "training_config", "data_config", "resource_config", "output_config", "scheduling_config", "labels"]) {
    const value = withoutDefaults((j as unknown as Body)[part]);
    if (value !== undefined) all[part] = value;
  }
  return all;
}

// Answers have every field; a request needs those that say something. Where nothing is not the default, it says something.
const telling = new Set(["priority", "restartable", "checkpoint_async"]);

function withoutDefaults(v: unknown, name = ""): unknown {
  if (v === null || v === "" || v === undefined) return undefined;
  if ((v === 0 || v === false) && !telling.has(name)) return undefined;
  if (Array.isArray(v)) return v.length > 0 ? v : undefined;
  if (typeof v !== "object") return v;
  const kept = Object.entries(v).map(([k, x]) => [k, withoutDefaults(x, k)] as const).filter(([, x]) => x !== undefined);
  return kept.length > 0 ? Object.fromEntries(kept) : undefined;
}

export const asYaml = (b: Body) => yaml(b) + "\n";
