import { clock, count, duration, since } from "./format";
import type { Obstacle } from "./types";

const headings: Record<string, string> = {
  NODES: "nodes", QUOTA: "quota", QUEUE_LIMIT: "queue limit", HOLD: "held", DEPENDENCY: "other jobs", MAY_STILL_RUN: "may still run",
  PREEMPTION: "preemption", ORDER: "its turn", PAUSED: "paused", OTHER: "scheduler",
};

/** heading is a word for a kind of obstacle. */
export function heading(kind: string): string {
  return headings[kind] ?? kind.toLowerCase().replaceAll("_", " ");
}

const checks: Record<string, string> = {
  LOST: "lost", UNREACHABLE: "unreachable", DRAINED: "drained", UNFIT: "unfit to start tasks", LABELS: "without the labels",
  GPU_TYPE: "without GPUs of the type", GPU_MEMORY: "with too little GPU memory", GPU_COUNT: "with too few GPUs", CPU_COUNT: "with too few CPUs",
  MEMORY_SIZE: "with too little memory", GPU_HEALTH: "with GPUs that are not healthy", MAY_STILL_RUN: "where an attempt may still run",
  GPUS_IN_USE: "with GPUs in use", CPUS_IN_USE: "with CPUs in use", MEMORY_IN_USE: "with memory in use", LINKS: "whose free GPUs are not linked",
  FAILED_THERE: "where it failed before", FITS: "with room for a task",
};

export interface NamedFact {
  name: string;
  value: string;
}

/** factsOf lists what belongs to an obstacle, apart from the jobs and nodes that it names. */
export function factsOf(o: Obstacle, now: number): NamedFact[] {
  const facts: NamedFact[] = [];
  const add = (name: string, value: string) => facts.push({ name, value });
  for (const n of o.nodes) {
    const which = checks[n.check] ?? n.check.toLowerCase().replaceAll("_", " ");
    const named = n.examples.length > 0 ? `: ${n.examples.join(", ")}${n.examples.length < n.nodes ? ", …" : ""}` : "";
    add(`${count(n.nodes)} ${n.nodes === 1 ? "node" : "nodes"}`, which + named);
  }
  if (o.queue) add("queue", o.queue);
  const unit = o.resource ? ` ${o.resource === "gpus" ? "GPUs" : o.resource.replaceAll("_", " ")}` : "";
  if (o.limit !== null) add("limit", count(o.limit) + unit);
  if (o.used !== null) add("in use", count(o.used) + unit);
  if (o.needed !== null) add("needs", count(o.needed) + unit);
  if (o.until) {
    const left = since(o.until, now);
    add("until", left !== null && left < 0 ? `${clock(o.until, now)}, for ${duration(-left)} more` : clock(o.until, now));
  }
  if (o.count !== null && o.kind === "ORDER") add("ahead of it", `${count(o.count)} ${o.count === 1 ? "job" : "jobs"}`);
  if (o.count !== null && o.kind === "PREEMPTION") add("still leaving", `${count(o.count)} ${o.count === 1 ? "job" : "jobs"}`);
  return facts;
}
