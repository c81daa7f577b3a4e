import type { Graph } from "./types";

interface Step {
  graph: Graph;
  /** What the change was called, for the button that undoes it. */
  name: string;
  key: string;
}

/**
 * History is the one stack that undoes everything, moves too. Changes with the same key that follow each other without a
 * pause between (seal) are one step, such as the letters of a name or the steps of an arrow key.
 */
export class History {
  private past: Step[] = [];
  private future: Step[] = [];
  private open = "";

  constructor(
    private now: Graph,
    private readonly most = 500,
  ) {}

  get graph(): Graph {
    return this.now;
  }

  /** apply makes a drawing the present one. The same drawing is no step. */
  apply(next: Graph, name: string, key = ""): Graph {
    if (next === this.now) return next;
    this.future = [];
    if (key === "" || key !== this.open) {
      this.past.push({ graph: this.now, name, key });
      if (this.past.length > this.most) this.past.shift();
    }
    this.open = key;
    return (this.now = next);
  }

  /** seal ends a step: the next change is another one. */
  seal(): void {
    this.open = "";
  }

  /** replace changes the present drawing without a step: what the server has added to it. */
  replace(change: (g: Graph) => Graph): Graph {
    return (this.now = change(this.now));
  }

  undo(): Graph {
    const step = this.past.pop();
    this.open = "";
    if (!step) return this.now;
    this.future.push({ ...step, graph: this.now });
    return (this.now = step.graph);
  }

  redo(): Graph {
    const step = this.future.pop();
    this.open = "";
    if (!step) return this.now;
    this.past.push({ ...step, graph: this.now });
    return (this.now = step.graph);
  }

  /** What undo and redo would do; null: nothing. */
  get undoes(): string | null {
    return this.past.at(-1)?.name ?? null;
  }
  get redoes(): string | null {
    return this.future.at(-1)?.name ?? null;
  }
}
