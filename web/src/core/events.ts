import type { ClusterEvent } from "./types";

/** Saying is a sentence about an event, around the job that it is about. */
export interface Saying {
  before: string;
  job: string;
  after: string;
}

// Of what comes within a second of something else, only one is said.
const became: Record<string, string> = {
  SCHEDULING: "got its places", PREPARING: "", TRAINING: "trains", COMPLETED: "completed", FAILED: "failed", CANCELLED: "was canceled", PAUSED: "was paused",
  QUEUED: "waits again", PENDING: "waits again", PREEMPTED: "was preempted", CHECKPOINTING: "saves a checkpoint",
};

/** says writes an event as a sentence; null: it is not worth one. */
export function says(e: ClusterEvent): Saying | null {
  const lower = (s: string | null) => (s ?? "").toLowerCase();
  switch (e.topic) {
    case "job": {
      if (!e.status_to) return null;
      if (e.transfer) return { before: "", job: e.job_id, after: ` fetches its data: ${e.transfer}` };
      if (!e.status_from || e.status_from === "UNSPECIFIED") return { before: "", job: e.job_id, after: " was submitted" };
      if (e.status_from === e.status_to) return e.stopping ? { before: "", job: e.job_id, after: ` is being stopped: ${lower(e.stopping)}` } : null;
      const after = became[e.status_to];
      if (after === "") return null;
      const where = e.status_to === "SCHEDULING" && e.nodes.length > 0 ? ` on ${e.nodes.join(", ")}` : "";
      return { before: "", job: e.job_id, after: ` ${after ?? `is ${lower(e.status_to)}`}${where}` };
    }
    case "node":
      if (!e.node_to) return null;
      return { before: `Node ${e.nodes[0] ?? e.name} is ${lower(e.node_to)}`, job: "", after: "" };
    case "checkpoint":
      return { before: `Checkpoint ${e.checkpoint_id} of `, job: e.job_id, after: "" };
    case "coordinator":
      return { before: `Coordinator ${e.name} changed`, job: "", after: "" };
    case "queue":
      return { before: `Queue ${e.name} changed`, job: "", after: "" };
    case "policy":
      return { before: "The policy of the scheduler changed", job: "", after: "" };
    default:
      return null;
  }
}
