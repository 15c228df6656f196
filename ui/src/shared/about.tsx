// What the server is for: the words and the views of the page depend on it.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { getJson, signInWay, whenSignedOut } from "./client";
import type { About, OutcomeWords } from "./client";
import { words } from "./format";
import { visible } from "./visible";

export const about = signal<About | null>(null);

let asked: Promise<About | null> | null = null;

const STARTING_MS = 2000;

/** Fetch it once, and again while tool servers start; without it the page shows only what every server has. */
export async function loadAbout(): Promise<void> {
  if (about.value && !about.value.starting) return;
  asked ??= getJson<About>("/api/about").catch(() => null);
  about.value = (await asked) ?? about.value;
  asked = null;
  if (about.value?.starting) window.setTimeout(() => void loadAbout(), STARTING_MS);
}

/** Names the tool servers that are still starting: their tools cannot be called yet. */
export function Starting(): VNode | null {
  const line = about.value?.starting;
  return line ? <p class="starting">{visible(line)}</p> : null;
}

// Whoever signs in next may have other views.
whenSignedOut(() => {
  about.value = null;
});

/** True if the user may use the views of those who operate this server; until it has said so only its local user may. */
export function isOperator(): boolean {
  return about.value?.views.includes("lab") ?? signInWay === "link";
}

/** True if this server has a task list. */
export function hasTasks(): boolean {
  return about.value?.views.includes("tasks") ?? false;
}

/** The words of the server for an outcome, a category of outcomes or a decision type. */
export function wordsOf(code: string): string {
  const found = about.value;
  return [...(found?.outcomes ?? []), ...(found?.types ?? [])].find((one) => one.code === code)?.words ?? words(code);
}

/** The kind of an outcome; null until the server has said it. */
export function kindOf(code: string | null | undefined): OutcomeWords["kind"] | null {
  return about.value?.outcomes.find((one) => one.code === code)?.kind ?? null;
}

/** The meaning of an outcome. */
export function meaningOf(code: string): string {
  return about.value?.outcomes.find((one) => one.code === code)?.meaning ?? "";
}

/** The line that says that one talks to an AI. */
export function Disclosure(): VNode | null {
  const line = about.value?.disclosure;
  return line ? <p class="quiet disclosure">{visible(line)}</p> : null;
}
