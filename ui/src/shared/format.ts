// Times, durations and codes in words.

export const TIME = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false });
export const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hour12: false });

/** The time of day for today, and the date before that. */
export function shortTime(iso: string): string {
  const date = new Date(iso);
  return date.toDateString() === new Date().toDateString() ? TIME.format(date) : DAY.format(date);
}

export function fullTime(iso: string): string {
  return FULL.format(new Date(iso));
}

export function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Minutes and seconds: `4:09`. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A code in words: `SUCCESS:TASK_COMPLETED` reads "success: task completed". */
export function words(code: string): string {
  return code.toLowerCase().replaceAll("_", " ").replaceAll(":", ": ");
}
