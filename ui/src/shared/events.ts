// Server-sent events, read with fetch: EventSource can neither POST nor send an Authorization header.
import { request } from "./client";

export interface ServerEvent {
  readonly id: string;
  readonly type: string;
  readonly data: unknown;
  /** When this page received it, in milliseconds. */
  readonly at: number | null;
}

/** The events of `url` as they arrive. Throws `ApiError` before the first one; ends when the server closes the stream. */
export async function* events(url: string, init: RequestInit): AsyncGenerator<ServerEvent> {
  const response = await request(url, init);
  if (response.status === 204 || !response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
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

function parse(block: string): ServerEvent | null {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    // A line that begins with a colon is the comment that keeps the connection open.
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart());
  }
  const data = fields.get("data");
  if (data === undefined) return null;
  return { id: fields.get("id") ?? "", type: fields.get("event") ?? "message", data: JSON.parse(data) as unknown, at: Date.now() };
}
