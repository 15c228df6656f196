// The turn that runs in this tab: sent once, followed to its decision, and continued after a reload or a lost connection.
import { computed, signal } from "@preact/signals";
import { ownName } from "../shared/address";
import { ApiError, post, request, whenSignedOut } from "../shared/client";
import type { ChatReply } from "../shared/client";
import { decisionEvents, pause, POLL_MS, SilentStreamError, turnEvents } from "../shared/events";
import type { ServerEvent } from "../shared/events";
import { parseJson } from "../shared/json";
import { visitsOf } from "../machine/path";

const STORAGE_KEY = ownName("turn");
const MAX_ATTEMPTS = 6;

export interface Message {
  readonly conversation_id?: string;
  readonly content?: string;
  readonly answers?: { readonly pending_action: string; readonly yes: boolean; readonly read?: string };
  /** The question that is on the screen: a typed yes answers no other one. */
  readonly shown?: { readonly pending_action: string | null };
}

/** A server's report on a running call: `done` grows up to `total`, if that is known. */
export interface ToolProgress {
  readonly done: number;
  readonly total: number | null;
  readonly message: string | null;
}

export interface Turn {
  readonly message: Message;
  /** The Idempotency-Key: the message can be sent again without taking effect twice. */
  readonly key: string;
  readonly decisionId: string | null;
  readonly events: readonly ServerEvent[];
  /** What the tool that is running has reported last. */
  readonly progress: ToolProgress | null;
  readonly reply: ChatReply | null;
  readonly failure: string | null;
}

/** The time zone of the browser, in which the server says times; without one after a message with it was refused. */
let zone: string | undefined = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const turn = signal<Turn | null>(null);
export const visits = computed(() => visitsOf(turn.value?.events ?? []));
export const running = computed(() => turn.value !== null && turn.value.reply === null && turn.value.failure === null);

/** Send a message and follow its turn; the promise resolves with the reply, or with null if it failed. */
export function send(message: Message): Promise<ChatReply | null> {
  const last = turn.value;
  // A message that got no answer may have arrived all the same: sent again, it is the same request.
  const again = last && isUnsent(last) && last.message.content === message.content && isSame(last.message, message);
  update({ message, key: again ? last.key : crypto.randomUUID(), decisionId: null, events: [], progress: null, reply: null, failure: null });
  return follow();
}

/** Follow a turn that another tab or device has begun. */
export function join(decisionId: string, message: Message): Promise<ChatReply | null> {
  update({ message, key: crypto.randomUUID(), decisionId, events: [], progress: null, reply: null, failure: null });
  return follow();
}

/** Ask the server to end the running turn; its answer then says that it was stopped. */
export async function stop(): Promise<void> {
  const id = turn.value?.decisionId;
  if (id) await request(`/api/decisions/${id}/stop`, { method: "POST" });
}

function isSame(one: Message, other: Message): boolean {
  return one.conversation_id === other.conversation_id && one.shown?.pending_action === other.shown?.pending_action;
}

/** Continue the turn that ran in this tab before a reload. */
export async function resume(): Promise<ChatReply | null> {
  const stored = sessionStorage.getItem(STORAGE_KEY);
  if (!stored || turn.value) return null;
  turn.value = parseJson(stored) as Turn;
  return follow();
}

/** True for a turn that failed before anything was heard of it. */
export function isUnsent({ failure, decisionId }: Turn): boolean {
  return failure !== null && decisionId === null;
}

/** Forget a turn that has ended. */
export function forget(): void {
  if (!running.value) turn.value = null;
}

whenSignedOut(() => {
  turn.value = null;
  sessionStorage.removeItem(STORAGE_KEY);
});

async function follow(): Promise<ChatReply | null> {
  // A proxy that buffers lets no event through before the turn has ended.
  let isHeldBack = false;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    try {
      if (isHeldBack && turn.value?.decisionId === null && !(await isAnswered(turn.value))) {
        attempt = 0;
        await pause(POLL_MS);
        continue;
      }
      for await (const event of stream()) {
        attempt = 0;
        receive(event);
      }
      if (turn.value?.reply) return turn.value.reply;
    } catch (error) {
      if (turn.value === null) return null;
      if (error instanceof ApiError && error.status === 422 && zone) {
        // The browser may know a zone that the server does not.
        zone = undefined;
        continue;
      }
      if (error instanceof ApiError && !mayContinue(error)) {
        update({ failure: error.message });
        return null;
      }
      isHeldBack ||= error instanceof SilentStreamError;
    }
    await pause(isHeldBack ? POLL_MS : Math.min(4000, 400 * 2 ** attempt));
  }
  const sent = turn.value?.decisionId != null;
  update({
    failure: sent
      ? "The connection was lost. What was done is in the conversation; reload it to see."
      : "The server did not answer, so this message may not have arrived. You can send it again: it takes effect only once.",
  });
  return null;
}

function stream(): AsyncGenerator<ServerEvent> {
  const current = turn.value;
  if (!current) throw new Error("no turn is running");
  if (current.decisionId === null) return turnEvents("/api/chat/stream", post({ ...current.message, time_zone: zone }, { "Idempotency-Key": current.key }));
  return decisionEvents(current.decisionId, undefined, current.events.at(-1)?.id);
}

/** Ask for the answer without a stream: under the same key the message is the same request, which runs once. */
async function isAnswered({ message, key }: Turn): Promise<boolean> {
  try {
    const answer = await request("/api/chat", post({ ...message, time_zone: zone }, { "Idempotency-Key": key }));
    const reply = (await answer.json()) as ChatReply;
    update({ decisionId: reply.decision_id });
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.code === "REQUEST_IN_PROGRESS") return false;
    throw error;
  }
}

function receive(event: ServerEvent): void {
  const current = turn.value;
  if (!current) return;
  if (event.type === "error") throw toError(event);
  // It has no id, because it is not part of the record: a stream that is continued begins after the last event that is.
  if (event.type === "progress") return update({ progress: event.data as ToolProgress });
  const last = current.events.at(-1);
  if (!event.id && !last) return;
  // The id of a call that runs is that of the event before it, for the same reason.
  if (!event.id) event = { ...event, id: last?.id ?? "" };
  const next = { decisionId: event.id.split(":")[0] ?? null, events: [...current.events, event], progress: null };
  update(event.type === "decision" ? { ...next, reply: event.data as ChatReply } : next);
}

/** True for a failure after which the same turn can be asked for again. */
function mayContinue(error: ApiError): boolean {
  return error.code === "OFFLINE" || error.code === "REQUEST_IN_PROGRESS" || error.status === 503;
}

function toError(event: ServerEvent): ApiError {
  const { error } = event.data as { error: { code: string; message: string } };
  const temporary = error.code === "SERVICE_UNAVAILABLE" || error.code === "REQUEST_IN_PROGRESS";
  return new ApiError(temporary ? 503 : 500, error.code, error.message);
}

function update(change: Partial<Turn>): void {
  turn.value = { ...(turn.value as Turn), ...change };
  if (running.value) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(turn.value));
  else sessionStorage.removeItem(STORAGE_KEY);
}
