// The server's time. A browser's clock may be wrong by minutes, and every time in the API is the server's.
import { signal } from "@preact/signals";

/** The Date header has whole seconds and is old by the time of its way: a smaller difference says nothing. */
const TOLERANCE_MS = 2000;

/** Milliseconds by which the server's clock is ahead of this browser's. */
let ahead = 0;

/** Learn the server's time from the Date header of an answer that has just arrived. */
export function hearServerTime(date: string | null): void {
  const found = date === null ? NaN : Date.parse(date) + 500 - Date.now();
  if (Math.abs(found - ahead) > TOLERANCE_MS) ahead = found;
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
