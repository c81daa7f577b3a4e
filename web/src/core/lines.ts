import { strip } from "./ansi";

/** Line is one line that a task printed. */
export interface Line {
  n: number;
  text: string;
  at: string;
  rank: number;
  attempt: number;
  stream: string;
  level: string;
}

/** Longer lines are cut until somebody asks for the rest: browsers are slow with long lines, not with many. */
export const longest = 4096;

/**
 * Lines keeps the newest lines of a log, and which of them match a search. It is made for thousands of lines a second: a
 * line is looked at once.
 */
export class Lines {
  private all: Line[] = [];
  private found: number[] = []; // numbers of lines, in order
  private wanted = "";
  private next = 0;
  /** How many lines were dropped from the beginning. */
  dropped = 0;

  constructor(private readonly room = 200_000) {}

  add(line: Omit<Line, "n">): void {
    const n = this.next++;
    const kept = { ...line, n };
    this.all.push(kept);
    if (this.wanted && this.matches(kept)) this.found.push(n);
    if (this.all.length > this.room + this.room / 10) this.drop(this.room / 10);
  }

  private drop(many: number): void {
    this.all = this.all.slice(many);
    this.dropped += many;
    const first = this.all[0]?.n ?? 0;
    this.found = this.found.filter((n) => n >= first);
  }

  private matches(line: Line): boolean {
    return strip(line.text).toLowerCase().includes(this.wanted);
  }

  search(text: string): void {
    const wanted = text.toLowerCase();
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    this.found = wanted ? this.all.filter((l) => this.matches(l)).map((l) => l.n) : [];
  }

  /** How many lines there are to show: those that match, or all. */
  get size(): number {
    return this.wanted ? this.found.length : this.all.length;
  }

  /** slice returns lines to show, from one place to another. */
  slice(from: number, to: number): Line[] {
    if (!this.wanted) return this.all.slice(from, to);
    const first = this.all[0]?.n ?? 0;
    return this.found.slice(from, to).flatMap((n) => this.all[n - first] ?? []);
  }

  clear(): void {
    this.all = [];
    this.found = [];
    this.dropped = 0;
    this.next = 0;
  }
}
