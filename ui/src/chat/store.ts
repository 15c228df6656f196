// The user's conversations and the one that is open, kept equal in all tabs of this browser.
import { signal } from "@preact/signals";
import { hasTasks } from "../shared/about";
import { ApiError, getJson, whenSignedOut } from "../shared/client";
import { turnsChannel } from "../shared/tabs";
import { loadTasks } from "./tasks";
import type { Conversation, ConversationPage, ConversationSummary } from "../shared/client";

export const conversations = signal<readonly ConversationSummary[] | null>(null);
export const moreConversations = signal(false);
export const opened = signal<Conversation | null>(null);
export const failure = signal<ApiError | null>(null);

const PAGE = 40;
const otherTabs = turnsChannel();

/** Fetch the list again; with `more` the next page is added. */
export async function loadConversations(more = false): Promise<void> {
  const known = more ? (conversations.value ?? []) : [];
  const last = known.at(-1);
  const before = last ? `&before=${last.id}` : "";
  const page = await getJson<ConversationPage>(`/api/conversations?limit=${PAGE}${before}`);
  conversations.value = [...known, ...page.conversations];
  moreConversations.value = page.has_more;
}

// The conversation that was asked for last: an answer that arrives after the user has gone on is dropped.
let wanted: string | null = null;

/** Show no conversation. */
export function close(): void {
  wanted = null;
  opened.value = null;
  failure.value = null;
}

whenSignedOut(() => {
  close();
  conversations.value = null;
});

/** Open a conversation, or fetch the open one again. */
export async function open(id: string): Promise<void> {
  if (id !== wanted) failure.value = null;
  wanted = id;
  try {
    const found = await getJson<Conversation>(`/api/conversations/${encodeURIComponent(id)}`);
    if (wanted !== id) return;
    opened.value = withEarlier(found, opened.value);
    failure.value = null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (wanted !== id) return;
    // While the server cannot be reached, what was shown stays.
    if (error.code !== "OFFLINE" || opened.value?.id !== id) failure.value = error;
  }
}

/** The conversation with the earlier messages that are shown already, if they reach up to its own. */
function withEarlier(found: Conversation, shown: Conversation | null): Conversation {
  const from = shown?.id === found.id ? shown.messages.findIndex((message) => message.id === found.messages[0]?.id) : -1;
  if (!shown || from <= 0) return found;
  return { ...found, messages: [...shown.messages.slice(0, from), ...found.messages], has_more: shown.has_more };
}

/** Put the messages before the oldest shown one in front of it. */
export async function loadOlder(): Promise<void> {
  const shown = opened.value;
  const first = shown?.messages[0];
  if (!shown || !first) return;
  const page = await getJson<Conversation>(`/api/conversations/${shown.id}?before=${first.id}`);
  const now = opened.value;
  // It may have been fetched again meanwhile.
  if (now?.messages[0]?.id !== first.id) return;
  opened.value = { ...now, messages: [...page.messages, ...now.messages], has_more: page.has_more };
}

/** Tell the other tabs that a conversation has changed. */
export function announce(id: string): void {
  otherTabs.postMessage(id);
}

otherTabs.addEventListener("message", (event: MessageEvent<string>) => {
  void loadConversations().catch(() => undefined);
  if (hasTasks()) void loadTasks();
  if (opened.value?.id === event.data) void open(event.data);
});
