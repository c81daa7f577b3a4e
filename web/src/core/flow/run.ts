// An execution as its drawing shows it.
import type { Job } from "../types";

export interface StepError {
  code: string;
  message: string;
  step?: string;
}

export interface Execution {
  execution_id: string;
  core_id: string;
  core_slug: string;
  version: number;
  flow: string;
  status: string;
  input: unknown;
  output: unknown;
  error: StepError | null;
  waiting_for: { step: string; node_id: string; kind: string; id: string; since: string; until: string | null }[];
  steps: { step: string; node_id: string; kind: string; attempt: number; status: string; started_at: string; ended_at: string | null; error: StepError | null }[];
  created_at: string;
  updated_at: string;
  finished_at: string | null;
}

export interface CoreEvent {
  type: string;
  timestamp: string;
  payload: { node_id?: string; step?: string; block_kind?: string; attempt?: number; error?: StepError; result_binding?: string; result_binding_value?: unknown; [more: string]: unknown };
}

export interface Decision {
  id: string;
  execution_id: string;
  step: string;
  node_id: string;
  prompt: string;
  options: { id: string; label: string }[];
  schema: unknown;
  context: unknown;
  status: string;
  assignee_raw: string;
  expires_at: string | null;
  subject_digest: string;
  resolution: string;
}

/** Ran is what a run says about one node. */
export interface Ran {
  state: "runs" | "waits" | "done" | "failed";
  /** What stands below its name. */
  text: string;
  times: number;
  began: string;
  ended: string | null;
  name: string;
  value: unknown;
  error: StepError | null;
  job: string;
  gpus: number;
}

const plainWaits: Record<string, string> = { job: "waits for its job", decision: "asks", timer: "waits", event: "waits for an event", execution: "waits for a flow" };
const held = new Set(["SCHEDULING", "PREPARING", "TRAINING", "CHECKPOINTING", "EVALUATING", "EXPORTING"]);

// The compiler adds blocks to a node: n__next and n__end lead on, and n__breakpoint asks before it runs.
function nodeOf(id: string | undefined, step: string | undefined): { id: string; made: string } {
  const block = (step ?? "").replace(/^.*\./, "").replace(/\[.*$/, "");
  const [base = "", made = ""] = (block || id || "").split("__");
  return { id: id || base, made };
}

const decides = new Set(["if", "match"]);

/** ran follows the events of an execution, the oldest first, and then what it does now. */
export function ran(e: Execution, events: CoreEvent[], jobs: Pick<Job, "job_id" | "status" | "labels" | "resource_config">[]): Map<string, Ran> {
  const all = new Map<string, Ran>();
  const at = (id: string): Ran => {
    let r = all.get(id);
    if (!r) all.set(id, (r = { state: "runs", text: "", times: 0, began: "", ended: null, name: "", value: undefined, error: null, job: "", gpus: 0 }));
    return r;
  };
  for (const ev of events) {
    const { id, made } = nodeOf(ev.payload.node_id, ev.payload.step);
    if (!id || made === "next" || made === "end") continue;
    if (made && ev.type.endsWith(".block.exited")) continue;
    // What a decision leads to runs inside its block: the decision itself is made.
    if (decides.has(ev.payload.block_kind ?? "")) Object.assign(at(id), { state: ev.type.endsWith(".block.failed") ? "failed" : "done", text: "decided", times: at(id).times + (ev.type.endsWith(".block.entered") ? 1 : 0), began: at(id).began || ev.timestamp, error: ev.payload.error ?? null });
    else if (ev.type.endsWith(".block.entered")) Object.assign(at(id), { state: "runs", times: at(id).times + (made ? 0 : 1), began: at(id).began || ev.timestamp, ended: null, error: null });
    else if (ev.type.endsWith(".block.exited")) Object.assign(at(id), { state: "done", ended: ev.timestamp, name: ev.payload.result_binding ?? at(id).name, value: ev.payload.result_binding_value });
    else if (ev.type.endsWith(".block.failed")) Object.assign(at(id), { state: "failed", ended: ev.timestamp, error: ev.payload.error ?? null });
  }
  for (const s of e.steps) {
    const { id, made } = nodeOf(s.node_id, s.step);
    if (!id || made === "next" || made === "end" || (decides.has(s.kind) && s.status !== "failed" && all.has(id))) continue;
    const r = at(id);
    r.times ||= 1;
    r.began ||= s.started_at;
    if (s.status === "running") r.state = "runs";
    else if (s.status === "failed") Object.assign(r, { state: "failed", error: s.error ?? r.error, ended: s.ended_at });
    else if (r.state === "runs") Object.assign(r, s.status === "canceled" ? { state: "failed", text: "canceled", ended: s.ended_at } : { state: "done", ended: s.ended_at });
  }
  for (const j of jobs) {
    const { id } = nodeOf("", j.labels?.["step"]);
    if (!all.has(id)) continue;
    const r = at(id);
    r.job = j.job_id;
    r.gpus += held.has(j.status) ? (j.resource_config?.gpu_count ?? 0) : 0;
  }
  for (const w of e.waiting_for) {
    const r = at(nodeOf(w.node_id, w.step).id);
    r.state = w.kind === "job" ? "runs" : "waits";
    r.text = plainWaits[w.kind] ?? "waits";
    if (w.kind === "job") r.job = w.id;
  }
  const over = ["completed", "failed", "canceled"].includes(e.status);
  for (const r of all.values()) {
    if (over && (r.state === "runs" || r.state === "waits")) Object.assign(r, e.status === "completed" ? { state: "done" } : { state: "failed", text: e.status });
    if (r.state === "failed" && r.text === "decided") r.text = "";
    r.text ||= r.state === "done" ? "done" : r.state === "failed" ? (r.error?.code ?? "failed") : "runs";
    if (r.gpus > 0) r.text += `, ${r.gpus} GPU${r.gpus === 1 ? "" : "s"}`;
    if (r.times > 1) r.text += `, ${r.times} times`;
  }
  return all;
}
