// What single keys do. They never act while somebody types, and can be switched off.

export type Act =
  | { does: "go"; to: string }
  | { does: "palette" | "filter" | "help" | "next" | "previous" };

export interface Key {
  key: string;
  ctrl: boolean;
  alt: boolean;
  /** Whether the key goes into a field. */
  typing: boolean;
}

export const places: Record<string, [string, string]> = {
  o: ["/", "Overview"], j: ["/jobs", "Jobs"], q: ["/queue", "Queue"], n: ["/nodes", "Nodes"], f: ["/flows", "Flows"], c: ["/cluster", "Cluster"], s: ["/submit", "Submit a job"],
};

/** How long after g its letter counts. */
const patience = 1200;

/** Keys turns keys into what they do. */
export class Keys {
  private leader = -Infinity;
  constructor(private on = true) {}

  switchTo(on: boolean): void {
    this.on = on;
  }

  press(k: Key, at: number): Act | null {
    if (k.ctrl && !k.alt && k.key.toLowerCase() === "k") return { does: "palette" };
    if (!this.on || k.typing || k.ctrl || k.alt) return null;
    if (at - this.leader < patience) {
      this.leader = -Infinity;
      const to = places[k.key]?.[0];
      if (to) return { does: "go", to };
    }
    switch (k.key) {
      case "g":
        this.leader = at;
        return null;
      case "/": return { does: "filter" };
      case "?": return { does: "help" };
      case "j": return { does: "next" };
      case "k": return { does: "previous" };
    }
    return null;
  }
}
