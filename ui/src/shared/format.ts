// Times, durations and codes in words.

// Written by hand: to make one of the formatters of `Intl` takes longer than to show a whole view.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}

/** `09:05` */
export function timeOfDay(date: Date): string {
  return `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`;
}

/** `Nov 22` */
export function day(date: Date): string {
  return `${MONTHS[date.getMonth()]} ${date.getDate()}`;
}

/** The time of day for today, the date before that, and both for what comes later. */
export function shortTime(iso: string): string {
  const date = new Date(iso);
  if (date.toDateString() === new Date().toDateString()) return timeOfDay(date);
  return date.getTime() > Date.now() ? `${day(date)}, ${timeOfDay(date)}` : day(date);
}

/** `Nov 22, 2026, 09:05:07` */
export function fullTime(iso: string): string {
  const date = new Date(iso);
  return `${day(date)}, ${date.getFullYear()}, ${timeOfDay(date)}:${twoDigits(date.getSeconds())}`;
}

/** A whole number with commas: `10,000`. */
export function integer(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A number with its noun: `1 call`, `2 calls`. */
export function counted(value: number, noun: string): string {
  return `${integer(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function milliseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : duration(value);
}

/** A share in percent: `66.7 %`. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(share === 1 ? 0 : 1)} %`;
}

/** Minutes and seconds, such as `4:09`; a longer time in hours or days. */
export function countdown(ms: number): string {
  if (ms >= 120 * 60_000) return remaining(ms);
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A time in minutes, hours or days. */
export function remaining(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return "less than a minute";
  if (minutes < 120) return counted(minutes, "minute");
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? counted(hours, "hour") : counted(Math.floor(hours / 24), "day");
}

/** A code in words: `SUCCESS:TASK_COMPLETED` reads "success: task completed". */
export function words(code: string): string {
  return code.toLowerCase().replaceAll("_", " ").replaceAll(":", ": ");
}
