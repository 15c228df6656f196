// What the server is for: the words and the views of the page depend on it.
import { signal } from "@preact/signals";
import { getJson } from "./client";
import type { About } from "./client";

export const about = signal<About | null>(null);

/** Fetch it once; without it the page shows only what every server has. */
export async function loadAbout(): Promise<void> {
  about.value ??= await getJson<About>("/api/about").catch(() => null);
}

/** True if this server has a task list. */
export function hasTasks(): boolean {
  return about.value?.views.includes("tasks") ?? false;
}
