import { createParser } from "eventsource-parser";
import { Problem, problemOf } from "./api";

export interface Following {
  url: (lastId: string) => string;
  headers: () => Record<string, string>;
  /** Each event, once, in order. */
  event: (name: string, data: string, id: string) => void;
  /** Whether the stream is open now. */
  open?: (open: boolean) => void;
  signal: AbortSignal;
  /** After this id; empty: from where the address says. */
  lastId?: string;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  pause?: (ms: number) => Promise<void>;
}

/**
 * follow reads an event stream to its end, which may be never. A connection that breaks is opened again after the last
 * event that was seen, at whichever gateway answers, so that no event is missed or told twice. It returns the problem
 * that the stream ended with; null: all was sent.
 */
export async function follow(f: Following): Promise<Problem | null> {
  const get = f.fetch ?? ((url, init) => globalThis.fetch(url, init));
  const pause = f.pause ?? ((ms) => new Promise<void>((done) => setTimeout(done, ms)));
  let lastId = f.lastId ?? "";
  let failures = 0;
  while (!f.signal.aborted) {
    let end: Problem | null | undefined;
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream", ...f.headers() };
      if (lastId) headers["Last-Event-ID"] = lastId;
      const response = await get(f.url(lastId), { headers, signal: f.signal, cache: "no-store", credentials: "same-origin" });
      if (response.ok && response.body) {
        f.open?.(true);
        end = await read(response.body, (name, data, id) => {
          failures = 0;
          if (id) lastId = id;
          if (data !== "") f.event(name, data, id);
        });
        if (end !== undefined) return end;
      } else {
        const problem = await problemOf(response);
        if (response.status < 500 && response.status !== 429) return problem;
      }
    } catch {
      if (f.signal.aborted) return null;
    }
    f.open?.(false);
    await pause(Math.min(200 * 2 ** failures++, 5000));
  }
  return null;
}

const part = 16 << 10; // bytes
const busy = 8; // milliseconds

// read returns undefined when the connection closed without the final event.
async function read(
  body: ReadableStream<Uint8Array>,
  event: (name: string, data: string, id: string) => void,
): Promise<Problem | null | undefined> {
  let end: Problem | null | undefined;
  const parser = createParser({
    onEvent: (e) => {
      if (e.event === "error") end = final(e.data);
      else event(e.event ?? "message", e.data, e.id ?? "");
    },
  });
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let began = performance.now();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return end;
      // Small parts, so that the page stays quick while much comes at once.
      for (let at = 0; at < value.length; at += part) {
        parser.feed(decoder.decode(value.subarray(at, at + part), { stream: true }));
        if (end !== undefined) return end;
        if (performance.now() - began < busy) continue;
        await new Promise((done) => setTimeout(done, 0));
        began = performance.now();
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function final(data: string): Problem | null {
  try {
    const { code, message } = JSON.parse(data) as { code?: string; message?: string };
    return code ? new Problem(200, code, message ?? code) : null;
  } catch {
    return new Problem(200, "UNKNOWN", data);
  }
}
