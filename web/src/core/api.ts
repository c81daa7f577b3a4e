// The client of the gateway.

export const api = "/v1/modules/scaimind";

/** Problem is a request that was refused or had no answer; its message says what to do. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: { field: string; message: string }[] = [],
    readonly requestId = "",
    /** What a refusal of a flow says beyond its message: current_version, diagnostics. */
    readonly more: Record<string, unknown> = {},
  ) {
    super(message);
  }
  /** The permission that is missing, if that is the problem. */
  get missing(): string | null {
    if (this.code !== "AUTHZ_PERMISSION_DENIED") return null;
    return /permission (.+)$/.exec(this.message)?.[1] ?? "another permission";
  }
}

export interface Answer<T> {
  data: T;
  index: number;
}

// Flows answer as ScaiFlow does, with the thing itself.
const bare = (path: string) => path.startsWith("/v1/flows");

export interface Hooks {
  /** An answer has come, with the state index that it reflects. */
  answered(index: number): void;
  /** No answer has come. */
  silent(): void;
  /** The user is not signed in, or not any more. */
  unauthorized(): void;
  /** Reads are to be answered by any coordinator, because there is no leader. */
  leaderless(): boolean;
}

type Fetch = (input: string, init?: RequestInit) => Promise<Response>;

const pauses = [300, 1000, 3000];

export class Client {
  /** A token that is sent with each request, while it is exchanged for a session; empty: the browser sends its session. */
  token = "";

  constructor(
    private readonly hooks: Hooks,
    private readonly fetch: Fetch = (input, init) => globalThis.fetch(input, init),
    private readonly pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms)),
  ) {}

  headers(): Record<string, string> {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  async get<T>(path: string, options: { signal?: AbortSignal; stale?: boolean } = {}): Promise<Answer<T>> {
    const headers = this.headers();
    if (options.stale || this.hooks.leaderless()) headers["X-Mind-Consistency"] = "stale";
    const init: RequestInit = { headers };
    if (options.signal) init.signal = options.signal;
    return this.answer<T>(path, init);
  }

  /**
   * write sends a request that changes something. It has a key, so it is sent again when its answer was lost, and still
   * happens once.
   */
  async write<T>(method: "POST" | "PUT" | "DELETE", path: string, body?: unknown, more: Record<string, string> = {}, signal?: AbortSignal): Promise<Answer<T>> {
    const headers = { ...this.headers(), "Idempotency-Key": key(), "Content-Type": "application/json", ...more };
    const init: RequestInit = { method, headers };
    if (signal) init.signal = signal;
    if (body !== undefined) init.body = JSON.stringify(body);
    for (let tries = 0; ; tries++) {
      try {
        return await this.answer<T>(path, init);
      } catch (err) {
        const again = err instanceof Problem && (err.status === 0 || err.status === 503);
        const pause = pauses[tries];
        if (!again || pause === undefined) throw err;
        await this.pause(pause);
      }
    }
  }

  private async answer<T>(path: string, init: RequestInit): Promise<Answer<T>> {
    let response: Response;
    try {
      response = await this.fetch(path, { credentials: "same-origin", ...init });
    } catch (err) {
      if (init.signal?.aborted) throw err;
      this.hooks.silent();
      throw new Problem(0, "NO_ANSWER", "The gateway does not answer. Nothing is lost: this page asks again.");
    }
    const index = Number(response.headers.get("X-Mind-Index") ?? 0);
    if (response.status === 502 || response.status === 504) this.hooks.silent();
    else this.hooks.answered(index);
    if (response.status === 204) return { data: undefined as T, index };
    if (response.ok) {
      const answer = (await response.json()) as unknown;
      return { data: bare(path) ? (answer as T) : (answer as { data: T }).data, index };
    }
    const problem = await problemOf(response);
    if (response.status === 401) this.hooks.unauthorized();
    throw problem;
  }
}

/** problemOf reads a refusal. */
export async function problemOf(response: Response): Promise<Problem> {
  try {
    const { error, detail, meta } = (await response.json()) as {
      error: { code: string; message: string; details?: { field: string; message: string }[] };
      detail?: { error: string; message: string; fix?: string };
      meta?: { request_id?: string };
    };
    if (detail) {
      const text = detail.fix ? `${detail.message.replace(/[.\s]*$/, ".")} ${detail.fix}` : detail.message;
      return new Problem(response.status, detail.error, text, [], response.headers.get("X-Request-Id") ?? "", { ...detail });
    }
    return new Problem(response.status, error.code, error.message, error.details ?? [], meta?.request_id ?? "");
  } catch {
    return new Problem(response.status, "UNKNOWN", `The gateway answered with status ${response.status}.`);
  }
}

function key(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "console-" + [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** query writes parameters; empty ones are left out. */
export function query(values: Record<string, string | number | boolean | string[] | undefined | null>): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (Array.isArray(value)) for (const v of value) q.append(name, v);
    else if (value !== undefined && value !== null && value !== "" && value !== false) q.set(name, String(value));
  }
  const text = q.toString();
  return text ? "?" + text : "";
}

/** path joins segments below the prefix of ScaiMind, escaped. */
export function path(...segments: string[]): string {
  return api + segments.map((s) => "/" + encodeURIComponent(s)).join("");
}
