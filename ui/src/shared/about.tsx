// What the server is for: the words and the views of the page depend on it.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { getJson } from "./client";
import type { About } from "./client";
import { visible } from "./text";

export const about = signal<About | null>(null);

let asked: Promise<About | null> | null = null;

/** Fetch it once; without it the page shows only what every server has. */
export async function loadAbout(): Promise<void> {
  if (about.value) return;
  asked ??= getJson<About>("/api/about").catch(() => null);
  about.value = await asked;
  asked = null;
}

/** True if this server has a task list. */
export function hasTasks(): boolean {
  return about.value?.views.includes("tasks") ?? false;
}

/** The line that says that one talks to an AI. */
export function Disclosure(): VNode | null {
  const line = about.value?.disclosure;
  return line ? <p class="quiet disclosure">{visible(line)}</p> : null;
}
