// The questions that wait for the user's answer, asked for while the page is in sight and at once after each turn, and requests to their API.
import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { getJson, post, request, signedIn, whenSignedOut } from "../shared/client";
import type { AnsweredQuestion, ApprovalView, QuestionList, QuestionSummary } from "../shared/client";
import { now } from "../clock";
import { parseJson } from "../shared/json";
import { turnsChannel } from "../shared/tabs";

/** What waits for the user, what the user asked others, and what asked the user and has ended. */
export type Which = "for_me" | "own" | "ended";

/** How often what is shown is looked at again. */
export const EVERY_MS = 5000;
/** Above the first views' own requests, which it must not delay. */
const FIRST_MS = 600;
const EVERY_HIDDEN_MS = 10_000;
const EVERY_SHOWN_MS = 3000;

/** What waits for the user, as many pages of it as are shown. Null until it is known. */
export const waiting = signal<QuestionList | null>(null);
/** The number of its pages that are shown. */
export const pages = signal(1);

/** The number of questions that wait and have not expired. The clock is read only if there are any. */
export const openCount = computed(() => {
  const found = waiting.value;
  if (!found?.waiting) return 0;
  return Math.max(0, found.waiting - found.questions.filter(({ expires_at }) => Date.parse(expires_at) <= now.value).length);
});

whenSignedOut(() => {
  waiting.value = null;
  pages.value = 1;
});

/** The first `count` pages of a list as one. */
export async function listQuestions(which: Which, count = 1): Promise<QuestionList> {
  const questions: QuestionSummary[] = [];
  let page: QuestionList;
  let before = "";
  do {
    page = await getJson<QuestionList>(`/api/questions?which=${which}${before && `&before=${encodeURIComponent(before)}`}`);
    questions.push(...page.questions);
    before = page.next ?? "";
  } while (before && --count > 0);
  return { ...page, questions };
}

export function readQuestion(id: string): Promise<ApprovalView | QuestionSummary> {
  return getJson<ApprovalView | QuestionSummary>(`/api/questions/${id}`);
}

export interface Answer {
  readonly yes: boolean;
  readonly digest: string;
  readonly role?: string;
  readonly reason?: string;
  readonly signature?: string;
}

export async function answerQuestion(id: string, answer: Answer, key: string): Promise<AnsweredQuestion> {
  const sent = post(answer, { "Idempotency-Key": key });
  return parseJson(await (await request(`/api/questions/${id}/answer`, sent)).text()) as AnsweredQuestion;
}

export async function cancelQuestion(id: string): Promise<QuestionSummary> {
  return parseJson(await (await request(`/api/questions/${id}/cancel`, post({}))).text()) as QuestionSummary;
}

export async function loadInbox(): Promise<void> {
  const found = await listQuestions("for_me", pages.value);
  if (signedIn.value) waiting.value = found;
}

/** Keep it current while the page is in sight; more often while the view itself is shown. */
export function useInbox(shown: boolean): void {
  useEffect(() => {
    if (!signedIn.value) return undefined;
    const load = (): void => {
      if (document.visibilityState === "visible") void loadInbox().catch(() => undefined);
    };
    const first = window.setTimeout(load, waiting.value === null && !shown ? FIRST_MS : 0);
    const timer = window.setInterval(load, shown ? EVERY_SHOWN_MS : EVERY_HIDDEN_MS);
    // Every tab tells the others when a turn has ended. This one hears its own, too.
    const turns = turnsChannel();
    turns.addEventListener("message", load);
    document.addEventListener("visibilitychange", load);
    return () => {
      window.clearTimeout(first);
      window.clearInterval(timer);
      turns.close();
      document.removeEventListener("visibilitychange", load);
    };
  }, [shown, signedIn.value]);
}

/** Ask again and again while the page is in sight. */
export function useEvery(load: () => void, by: readonly unknown[]): void {
  useEffect(() => {
    load();
    const timer = window.setInterval(() => document.visibilityState === "visible" && load(), EVERY_MS);
    return () => window.clearInterval(timer);
  }, by);
}
