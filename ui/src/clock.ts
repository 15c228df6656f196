// The server's time. A browser's clock may be wrong by minutes, and every time in the API is the server's.
import { signal } from "@preact/signals";

/** The Date header has whole seconds, and a busy server renews it late: so much later it may really be. */
export const LATE_MS = 3000;

/** Milliseconds by which the server's clock is ahead of this browser's. */
let ahead = 0;

/** Learn the server's time from the Date header of an answer that has just arrived to a request that was sent at `sent`. */
export function hearServerTime(date: string | null, sent: number): void {
  const found = Date.parse(date ?? "");
  if (Number.isNaN(found)) return;
  // The server wrote the header at some time between the two. What agrees with that is kept, however slow the answer was; otherwise
  // the nearest time in the second of the header is taken, because half of a slow answer would set the clock back by as much.
  if (ahead > found + LATE_MS - sent) ahead = found + 1000 - sent;
  ahead = Math.max(ahead, found - Date.now());
}

/** The server's time, in milliseconds. */
export function serverNow(): number {
  return Date.now() + ahead;
}

const ticking = signal(Date.now(), {
  watched() {
    ticking.value = serverNow();
    timer = window.setInterval(() => (ticking.value = serverNow()), 500);
  },
  unwatched() {
    window.clearInterval(timer);
  },
});
let timer = 0;

/** The server's time as a signal, for countdowns; it ticks only while something reads it. */
export const now = ticking;
