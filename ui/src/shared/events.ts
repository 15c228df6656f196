// Server-sent events, read with fetch: EventSource can neither POST nor send an Authorization header.
import { getJson, request } from "./client";
import type { DecisionDetail } from "./client";
import { parseJson } from "./json";

export interface ServerEvent {
  readonly id: string;
  readonly type: string;
  readonly data: unknown;
  /** When this page received it, in milliseconds. */
  readonly at: number | null;
}

/** A stream begins with an event, and then has at least a comment every 15 s. */
const FIRST_MS = 10_000;
const NEXT_MS = 40_000;
/** Between two questions while no stream arrives. */
export const POLL_MS = 1_500;

/** Thrown if nothing arrives: a proxy between holds the stream back, or the connection is dead. */
export class SilentStreamError extends Error {}

/** The events of a turn. Throws also `SilentStreamError`. */
export async function* turnEvents(url: string, init: RequestInit): AsyncGenerator<ServerEvent> {
  const silence = new AbortController();
  const within = (ms: number): number => window.setTimeout(() => silence.abort(new SilentStreamError()), ms);
  let timer = within(FIRST_MS);
  const heard = (): void => {
    window.clearTimeout(timer);
    timer = within(NEXT_MS);
  };
  const signal = init.signal ? AbortSignal.any([init.signal, silence.signal]) : silence.signal;
  try {
    yield* events(url, { ...init, signal }, heard);
  } finally {
    window.clearTimeout(timer);
  }
}

/**
 * The events of `url` as they arrive; `heard` is called for whatever arrives. Throws `ApiError` before the first one; ends when
 * the server closes the stream.
 */
export async function* events(url: string, init: RequestInit, heard?: () => void): AsyncGenerator<ServerEvent> {
  const response = await request(url, init);
  if (response.status === 204 || !response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard?.();
      const blocks = (buffer + value).replaceAll("\r\n", "\n").split("\n\n");
      buffer = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * The events of a decision after the event `last`: live while it runs. Where streams do not arrive, the server is asked until
 * the turn has ended, and its stream ends at once.
 */
export async function* decisionEvents(id: string, signal?: AbortSignal, last = ""): AsyncGenerator<ServerEvent> {
  const url = `/api/decisions/${encodeURIComponent(id)}`;
  for (let before: string | null = null; before !== last; ) {
    before = last;
    try {
      const headers: HeadersInit = last ? { "Last-Event-ID": last } : {};
      for await (const event of turnEvents(`${url}/events`, { headers, ...(signal && { signal }) })) {
        last = event.id || last;
        yield event;
        if (event.type === "decision" || event.type === "error") return;
      }
    } catch (error) {
      if (!(error instanceof SilentStreamError)) throw error;
      before = null;
    }
    while ((await getJson<DecisionDetail>(url, signal)).status === "PENDING") {
      before = null;
      await pause(POLL_MS);
    }
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => window.setTimeout(resolve, ms));
}

function parse(block: string): ServerEvent | null {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    // A line that begins with a colon is the comment that keeps the connection open.
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart());
  }
  const data = fields.get("data");
  if (data === undefined) return null;
  return { id: fields.get("id") ?? "", type: fields.get("event") ?? "message", data: parseJson(data), at: Date.now() };
}
