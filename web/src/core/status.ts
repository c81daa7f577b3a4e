// What kind of status a job or node has, for its colour and for what may be done with it.

export type Kind = "waits" | "runs" | "done" | "failed" | "stopped";

const kinds: Record<string, Kind> = {
  PENDING: "waits", QUEUED: "waits", SCHEDULING: "waits", PREPARING: "runs",
  TRAINING: "runs", EVALUATING: "runs", CHECKPOINTING: "runs", EXPORTING: "runs",
  COMPLETED: "done", FAILED: "failed", CANCELLED: "stopped", PAUSED: "stopped", PREEMPTED: "waits",
};

export function kindOf(status: string): Kind {
  return kinds[status] ?? "stopped";
}

export const nodeKinds: Record<string, Kind> = {
  READY: "runs", DRAINING: "waits", DRAINED: "stopped", UNREACHABLE: "failed", LOST: "failed", UNFIT: "failed",
};

export type Verb = "cancel" | "pause" | "resume" | "retry";

/** verbs lists what may be done with a job in a status. */
export function verbs(status: string, stopping: string | null): Verb[] {
  if (stopping) return [];
  switch (status) {
    case "PENDING":
    case "QUEUED":
    case "SCHEDULING":
    case "PREPARING":
    case "PREEMPTED":
      return ["cancel"];
    case "PAUSED":
      return ["resume", "cancel"];
    case "FAILED":
    case "CANCELLED":
      return ["retry"];
    case "COMPLETED":
      return [];
    default:
      return ["pause", "cancel"];
  }
}

export const over = (status: string) => kindOf(status) === "done" || status === "FAILED" || status === "CANCELLED";
