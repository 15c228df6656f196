// What waits for the user's answer in any conversation: asked for while the page is in sight, and at once after each turn.
import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { getJson, signedIn, whenSignedOut } from "../shared/client";
import type { OpenConfirmation, OpenConfirmations } from "../shared/client";
import { now } from "../shared/clock";
import { turnsChannel } from "../shared/tabs";

/** Null until it is known. */
export const waiting = signal<readonly OpenConfirmation[] | null>(null);

/** The questions that have not expired. The clock is read only if there are any. */
export const openCount = computed(
  () => (waiting.value ?? []).filter(({ pending_action: { expires_at } }) => Date.parse(expires_at) > now.value).length,
);

/** Above the first views' own requests, which it must not delay. */
const FIRST_MS = 600;
const EVERY_MS = 10_000;
const EVERY_SHOWN_MS = 3000;

whenSignedOut(() => (waiting.value = null));

export async function loadInbox(): Promise<void> {
  const found = await getJson<OpenConfirmations>("/api/confirmations");
  if (signedIn.value) waiting.value = found.confirmations;
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
