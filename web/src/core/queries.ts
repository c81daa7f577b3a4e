import { Problem, type Answer } from "./api";

/** Entry is what is known of one path. */
export interface Entry<T> {
  data: T | undefined;
  error: Problem | undefined;
  /** When data was answered; 0: never. */
  at: number;
  index: number;
  loading: boolean;
}

interface Slot {
  entry: Entry<unknown>;
  watchers: Map<object, { every: number; tell: (e: Entry<unknown>) => void }>;
  timer: ReturnType<typeof setTimeout> | undefined;
  running: AbortController | undefined;
  again: boolean;
}

const nothing: Entry<unknown> = { data: undefined, error: undefined, at: 0, index: 0, loading: true };

/** How long an answer is kept that nobody watches: a page that is opened again shows it at once. */
const keep = 60_000;

/**
 * Queries keeps the answers that pages show, asks again from time to time, and at once when told that something changed.
 * Watchers of the same path share one request. While the page is hidden nothing is asked.
 */
export class Queries {
  private readonly slots = new Map<string, Slot>();
  private active = true;

  constructor(
    private readonly ask: (path: string, signal: AbortSignal) => Promise<Answer<unknown>>,
    private readonly now: () => number = Date.now,
  ) {}

  /** watch tells what is known of a path now and whenever that changes, until the returned function is called. */
  watch<T>(path: string, every: number, tell: (e: Entry<T>) => void): () => void {
    let slot = this.slots.get(path);
    if (!slot) {
      slot = { entry: nothing, watchers: new Map(), timer: undefined, running: undefined, again: false };
      this.slots.set(path, slot);
    }
    const who = {};
    slot.watchers.set(who, { every, tell: tell as (e: Entry<unknown>) => void });
    tell(slot.entry as Entry<T>);
    this.plan(path, slot);
    return () => {
      slot.watchers.delete(who);
      if (slot.watchers.size > 0) return;
      clearTimeout(slot.timer);
      slot.running?.abort();
      slot.running = undefined;
      slot.timer = setTimeout(() => this.slots.delete(path), keep);
    };
  }

  /** refresh asks again for the watched paths that a prefix begins. */
  refresh(prefix: string): void {
    for (const [path, slot] of this.slots) {
      if (!path.startsWith(prefix)) continue;
      if (slot.watchers.size > 0) void this.run(path, slot);
      else slot.entry = { ...slot.entry, at: 0 };
    }
  }

  /** setActive stops and starts all asking: a page that nobody sees needs no answers. */
  setActive(active: boolean): void {
    if (active === this.active) return;
    this.active = active;
    for (const [path, slot] of this.slots) if (slot.watchers.size > 0) this.plan(path, slot);
  }

  /** clear forgets everything: another user has signed in. */
  clear(): void {
    for (const [path, slot] of this.slots) {
      slot.running?.abort();
      slot.running = undefined;
      this.set(slot, nothing);
      if (slot.watchers.size > 0) this.plan(path, slot);
    }
  }

  private every(slot: Slot): number {
    return Math.min(...[...slot.watchers.values()].map((w) => w.every));
  }

  private plan(path: string, slot: Slot): void {
    clearTimeout(slot.timer);
    if (!this.active || slot.watchers.size === 0 || slot.running) return;
    const { at, error } = slot.entry;
    const every = this.every(slot);
    const due = at === 0 && !error ? 0 : at + every - this.now();
    if (due === Infinity) return;
    slot.timer = setTimeout(() => void this.run(path, slot), Math.max(0, error ? every : due));
  }

  private async run(path: string, slot: Slot): Promise<void> {
    if (slot.running) {
      slot.again = true;
      return;
    }
    clearTimeout(slot.timer);
    const running = new AbortController();
    slot.running = running;
    let entry: Entry<unknown>;
    try {
      const { data, index } = await this.ask(path, running.signal);
      entry = { data, error: undefined, at: this.now(), index, loading: false };
    } catch (err) {
      if (running.signal.aborted) return;
      const error = err instanceof Problem ? err : new Problem(0, "UNKNOWN", String(err));
      entry = { ...slot.entry, error, loading: false };
    }
    if (slot.running !== running) return;
    slot.running = undefined;
    this.set(slot, entry);
    if (slot.again) {
      slot.again = false;
      void this.run(path, slot);
    } else this.plan(path, slot);
  }

  private set(slot: Slot, entry: Entry<unknown>): void {
    slot.entry = entry;
    for (const w of slot.watchers.values()) w.tell(entry);
  }
}
