// The filters of the list of jobs. They live in the address of the page, in the words of the API.

export interface Filters {
  status: string[];
  queue: string;
  search: string;
  user: string;
  label: string[];
  order: string;
}

export const statuses = [
  "PENDING", "QUEUED", "SCHEDULING", "PREPARING", "TRAINING", "CHECKPOINTING", "EVALUATING", "EXPORTING",
  "PAUSED", "PREEMPTED", "COMPLETED", "FAILED", "CANCELLED",
];

export const orders: Record<string, string> = {
  "created_at desc": "newest first",
  created_at: "oldest first",
  "priority desc": "priority",
  name: "name",
  "started_at desc": "last started",
  "finished_at desc": "last ended",
};

const first = "created_at desc";

/** parse reads the query of an address. What it does not know it leaves out: an old link still opens. */
export function parse(query: string): Filters {
  const q = new URLSearchParams(query);
  const order = q.get("order_by") ?? first;
  return {
    status: [...new Set(q.getAll("status"))].filter((s) => statuses.includes(s)),
    queue: q.get("queue") ?? "",
    search: q.get("search") ?? "",
    user: q.get("user") ?? "",
    label: q.getAll("label").filter((l) => l.includes("=")),
    order: order in orders ? order : first,
  };
}

/** format writes filters as a query, in one order, without what is left as it is. */
export function format(f: Filters): string {
  const q = new URLSearchParams();
  if (f.search) q.set("search", f.search);
  for (const s of statuses.filter((s) => f.status.includes(s))) q.append("status", s);
  if (f.queue) q.set("queue", f.queue);
  if (f.user) q.set("user", f.user);
  for (const l of f.label) q.append("label", l);
  if (f.order !== first) q.set("order_by", f.order);
  return q.toString();
}

/** any says whether something is filtered. */
export function any(f: Filters): boolean {
  return f.status.length > 0 || f.queue !== "" || f.search !== "" || f.user !== "" || f.label.length > 0;
}

/** toggled switches one status. */
export function toggled(f: Filters, status: string): Filters {
  const on = f.status.includes(status);
  return { ...f, status: on ? f.status.filter((s) => s !== status) : [...f.status, status] };
}

/** command is the words of `mind jobs` for these filters; search and user have no flag. */
export function command(f: Filters): string[] {
  const words = ["mind", "jobs"];
  for (const s of f.status) words.push("--status", s);
  if (f.queue) words.push("--queue", f.queue);
  for (const l of f.label) words.push("--label", l);
  if (f.order !== first) words.push("--order-by", f.order);
  return words;
}
