// What was drawn and not saved, kept in this browser.
import type { Graph } from "./types";

export interface Draft {
  /** The version that it was made from; empty: the flow was never saved. */
  based_on: string;
  at: number;
  content: Graph;
}

/** The part of localStorage that this takes. */
export interface Store {
  readonly length: number;
  key(i: number): string | null;
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const prefix = "mind.flow.";
const most = 20;

/** Drafts keeps one draft of each flow for one user: the newest twenty. */
export class Drafts {
  constructor(
    private readonly store: Store,
    private readonly user: string,
  ) {}

  private key(flow: string): string {
    return `${prefix}${this.user}.${flow}`;
  }

  load(flow: string): Draft | null {
    try {
      const d = JSON.parse(this.store.getItem(this.key(flow)) ?? "null") as Draft | null;
      return d && Array.isArray(d.content?.nodes) && Array.isArray(d.content.edges) ? d : null;
    } catch {
      return null;
    }
  }

  /** save says whether the browser has kept it. */
  save(flow: string, d: Draft): boolean {
    try {
      this.store.setItem(this.key(flow), JSON.stringify(d));
      this.bound();
      return true;
    } catch {
      return false;
    }
  }

  drop(flow: string): void {
    this.store.removeItem(this.key(flow));
  }

  private bound(): void {
    const all: [string, number][] = [];
    for (let i = 0; i < this.store.length; i++) {
      const key = this.store.key(i);
      if (key?.startsWith(prefix)) all.push([key, Number(/"at":(\d+)/.exec(this.store.getItem(key) ?? "")?.[1] ?? 0)]);
    }
    all.sort((a, b) => b[1] - a[1]);
    for (const [key] of all.slice(most)) this.store.removeItem(key);
  }
}
