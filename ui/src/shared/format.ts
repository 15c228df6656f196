// Times, durations and codes in words.

/** A formatter that is made when it is first used: making one takes longer than the rest of this module. */
function formatter(options: Intl.DateTimeFormatOptions): (date: Date) => string {
  let made: Intl.DateTimeFormat | undefined;
  return (date) => (made ??= new Intl.DateTimeFormat("en", options)).format(date);
}

export const timeOfDay = formatter({ hour: "2-digit", minute: "2-digit", hour12: false });
export const day = formatter({ day: "numeric", month: "short" });
const full = formatter({ dateStyle: "medium", timeStyle: "medium", hour12: false });

/** The time of day for today, and the date before that. */
export function shortTime(iso: string): string {
  const date = new Date(iso);
  return date.toDateString() === new Date().toDateString() ? timeOfDay(date) : day(date);
}

export function fullTime(iso: string): string {
  return full(new Date(iso));
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
