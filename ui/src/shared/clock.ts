// The time as a signal, for countdowns; it ticks only while something reads it.
import { signal } from "@preact/signals";

const ticking = signal(Date.now(), {
  watched() {
    timer = window.setInterval(() => (ticking.value = Date.now()), 500);
  },
  unwatched() {
    window.clearInterval(timer);
  },
});
let timer = 0;

export const now = ticking;
