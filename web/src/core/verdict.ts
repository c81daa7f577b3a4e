import type { Cluster, Coordinator, Replicas } from "./types";
import { count, duration, joined, plural } from "./format";

export type Level = "good" | "attention" | "bad" | "unknown";

export interface Verdict {
  level: Level;
  text: string;
}

/** Seen is what the console knows at a moment. */
export interface Seen {
  cluster: Cluster | undefined;
  replicas?: Replicas | undefined;
  now: number;
  /** Since when no leader is known; null: there is one. */
  leaderlessSince: number | null;
  /** Since when the gateway does not answer; null: it does. */
  silentSince: number | null;
}

/** verdict says in one sentence how the cluster is. What is wrong comes first, the worst of it alone. */
export function verdict(s: Seen): Verdict {
  const silent = s.silentSince === null ? 0 : (s.now - s.silentSince) / 1000;
  if (silent >= 3) {
    return { level: "bad", text: `The gateway does not answer since ${duration(silent)}: what you see is old.` };
  }
  if (!s.cluster) return { level: "unknown", text: "Asking the cluster…" };
  const voters = s.cluster.coordinators.filter((c) => c.voter);
  const lost = voters.filter((c) => gone(c));
  if (!s.cluster.leader) {
    const waited = duration(s.leaderlessSince === null ? 0 : Math.floor((s.now - s.leaderlessSince) / 1000));
    if (voters.length - lost.length > voters.length / 2) return { level: "bad", text: `No leader: writes wait since ${waited}.` };
    return { level: "bad", text: `${joined(lost.map((c) => c.id))} are dead: no majority is left, and writes wait since ${waited}.` };
  }
  const split = s.replicas && disagreement(s.replicas);
  if (split) return { level: "bad", text: split };
  if (lost.length > 0) return { level: "bad", text: losses(lost, voters.length) };
  const work = [coordinators(voters.length, s.replicas), gpus(s.cluster), waiting(s.cluster)].join("; ") + ".";
  const idle = s.cluster.nodes_total - s.cluster.nodes_ready;
  if (s.cluster.gpus_total === 0) {
    return { level: "attention", text: "No node has registered a GPU: jobs wait until an agent does." };
  }
  if (s.cluster.gpus_healthy < s.cluster.gpus_total || idle > 0) {
    if (s.cluster.gpus_healthy < s.cluster.gpus_total) return { level: "attention", text: work };
    return { level: "attention", text: `${plural(idle, "node")} of ${count(s.cluster.nodes_total)} ${idle === 1 ? "takes" : "take"} no work; ${work[0]?.toLowerCase()}${work.slice(1)}` };
  }
  return { level: "good", text: work };
}

const gone = (c: Coordinator) => c.liveness === "dead" || c.liveness === "left";

// Coordinators that have applied the same entry must have the same state.
function disagreement(r: Replicas): string | null {
  if (r.hashes !== "DIFFER") return null;
  // Hashes of different versions, which begin differently, are not compared.
  const format = (c: Coordinator) => c.state_hash?.split("-")[0];
  const known = r.coordinators.filter((c) => c.state_hash);
  const pairs = known.map((c) => [known.find((d) => format(d) === format(c)), c] as const);
  const [first, other] = pairs.find(([first, c]) => first && first.state_hash !== c.state_hash) ?? [];
  if (!first || !other) return null;
  return `${first.id} and ${other.id} disagree about the state after entry ${count(r.hash_index)}: keep the logs of both.`;
}

function losses(lost: Coordinator[], voters: number): string {
  const names = joined(lost.map((c) => c.id));
  const are = lost.length === 1 ? "is dead" : "are dead";
  const more = voters - lost.length - (Math.floor(voters / 2) + 1);
  if (more < 0) return `${names} ${are}: no majority is left, and writes wait.`;
  if (more === 0) return `${names} ${are}: the cluster survives no ${lost.length === 1 ? "second" : "further"} loss.`;
  return `${names} ${are}: the cluster survives ${more === 1 ? "one more loss" : `${more} more losses`}.`;
}

function coordinators(n: number, r: Replicas | undefined): string {
  if (n === 1) return "The one coordinator works";
  return r?.hashes === "AGREE" ? `All ${n} coordinators agree` : `All ${n} coordinators are alive`;
}

function gpus(c: Cluster): string {
  if (c.gpus_healthy === c.gpus_total) return c.gpus_total === 1 ? "the one GPU works" : `all ${count(c.gpus_total)} GPUs work`;
  return `${count(c.gpus_healthy)} of ${count(c.gpus_total)} GPUs work`;
}

function waiting(c: Cluster): string {
  const n = (c.jobs["QUEUED"] ?? 0) + (c.jobs["PENDING"] ?? 0);
  if (n === 0) return "no job waits";
  return n === 1 ? "1 job waits for GPUs" : `${count(n)} jobs wait for GPUs`;
}
