// What waits for the user's answer, in any conversation and as an approver: asked for while the page is in sight, and at once after each turn.
import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { listApprovals } from "../approvals/store";
import { getJson, signedIn, whenSignedOut } from "../shared/client";
import type { ApprovalSummary, OpenConfirmation, OpenConfirmations } from "../shared/client";
import { now } from "../clock";
import { turnsChannel } from "../shared/tabs";

/** Null until it is known. */
export const waiting = signal<readonly OpenConfirmation[] | null>(null);
/** The requests of others that wait for this user's approval. Null until they are known. */
export const approvals = signal<readonly ApprovalSummary[] | null>(null);

/** The questions that have not expired. The clock is read only if there are any. */
export const openCount = computed(
  () => (waiting.value ?? []).filter(({ pending_action: { expires_at } }) => Date.parse(expires_at) > now.value).length,
);

/** Above the first views' own requests, which it must not delay. */
const FIRST_MS = 600;
const EVERY_MS = 10_000;
const EVERY_SHOWN_MS = 3000;

whenSignedOut(() => (waiting.value = approvals.value = null));

export async function loadInbox(): Promise<void> {
  const [found, requests] = await Promise.all([getJson<OpenConfirmations>("/api/confirmations"), listApprovals("waiting")]);
  if (!signedIn.value) return;
  waiting.value = found.confirmations;
  approvals.value = requests;
}

/** Keep it current while the page is in sight; more often while the view itself is shown. */
export function useInbox(shown: boolean): void {
  useEffect(() => {
    if (!signedIn.value) return undefined;
    const load = (): void => {
      if (document.visibilityState === "visible") void loadInbox().catch(() => undefined);
    };
    const first = window.setTimeout(load, waiting.value === null && !shown ? FIRST_MS : 0);
    const timer = window.setInterval(load, shown ? EVERY_SHOWN_MS : EVERY_MS);
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
