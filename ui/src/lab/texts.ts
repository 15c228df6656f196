// The texts that are tried: those in force with the edits of this tab. The address has the edits too, so a link carries them.
import { effect, signal } from "@preact/signals";
import { ApiError, post, request, whenSignedOut } from "../shared/client";
import type { Rules } from "../shared/client";

export const PARTS = ["constitution", "conditions", "promises"] as const;
export type Part = (typeof PARTS)[number];
export type Edit = Readonly<Partial<Record<Part, string>>>;

const NAME = "#edit=";
const PAUSE_MS = 250;

/** What is in force; null until it is loaded. */
export const inForce = signal<Rules | null>(null);
/** The texts that differ from those in force. */
export const edit = signal<Edit>({});
/** The rows of the last texts that could be used. */
export const rules = signal<Rules | null>(null);
/** The last edit that could be used: the one that is tried on recorded decisions. Null until there is an answer. */
export const tried = signal<Edit | null>(null);
/** Why the texts cannot be used, and which one. */
export const problem = signal<Problem | null>(null);
type Problem = { readonly text: string; readonly message: string };
/** Why the edit of the address cannot be read; it is said until there is another edit. */
let unreadable: Problem | null = null;

whenSignedOut(() => {
  inForce.value = rules.value = tried.value = null;
  edit.value = {};
});

export function textOf(part: Part): string {
  return edit.value[part] ?? inForce.value?.[part] ?? "";
}

export function isEdited(): boolean {
  return Object.keys(edit.value).length > 0;
}

/** Try another text; the one in force is no edit. */
export function change(part: Part, text: string): void {
  unreadable = null;
  const { [part]: _former, ...others } = edit.value;
  edit.value = text === (inForce.value?.[part] ?? "") ? others : { ...others, [part]: text };
}

type Row = Partial<Pick<Rules["tools"][number], "verdict" | "max_per_message">>;
/** One change after the other: each is made in the text that the one before it has left. */
let rowChange = Promise.resolve();

/** Let the server write what the row of a tool is to say into the constitution. */
export function changeRow(tool: string, wanted: Row): void {
  rowChange = rowChange.then(async () => {
    const { promises: _promises, ...texts } = edit.value;
    try {
      const response = await request("/api/rules/row", post({ ...texts, tool, ...wanted }));
      const found = (await response.json()) as Rules;
      if (!found.problem) rules.value = found;
      change("constitution", found.constitution);
    } catch (error) {
      if (error instanceof ApiError) problem.value = { text: "constitution", message: error.message };
    }
  });
}

export function undo(): void {
  edit.value = {};
}

/** Load what is in force, and the edit that the address has. */
export async function loadRules(signal: AbortSignal): Promise<Rules> {
  await readAddress();
  if (inForce.value) return inForce.value;
  const response = await request("/api/rules", { ...post({}), signal });
  const found = (await response.json()) as Rules;
  rules.value ??= found;
  inForce.value = found;
  return found;
}

let checking: AbortController | null = null;
let timer = 0;

effect(() => {
  const wanted = edit.value;
  if (!inForce.value) return;
  checking?.abort();
  window.clearTimeout(timer);
  timer = window.setTimeout(() => void check(wanted), isEdited() ? PAUSE_MS : 0);
});

async function check(wanted: Edit): Promise<void> {
  const own = new AbortController();
  checking = own;
  const { promises: _promises, ...texts } = wanted;
  try {
    const response = await request("/api/rules", { ...post(texts), signal: own.signal });
    const found = (await response.json()) as Rules;
    if (own.signal.aborted) return;
    problem.value = found.problem ?? unreadable;
    if (found.problem) return;
    rules.value = found;
    tried.value = wanted;
  } catch (error) {
    if (error instanceof ApiError) problem.value = { text: "", message: error.message };
  }
}

async function readAddress(): Promise<void> {
  if (!window.location.hash.startsWith(NAME)) return;
  try {
    edit.value = JSON.parse(await unpacked(window.location.hash.slice(NAME.length))) as Edit;
    unreadable = null;
  } catch {
    problem.value = unreadable = { text: "", message: "The edit in the address cannot be read: the link is not complete." };
  }
}

window.addEventListener("hashchange", () => void readAddress());

/** The address of the lab with this edit. */
export async function link(): Promise<string> {
  return isEdited() ? NAME + (await packed(JSON.stringify(edit.value))) : "";
}

/** Keep the edit in the address of the view, so that a reload has it. */
export async function writeAddress(): Promise<void> {
  const { pathname, search } = window.location;
  const hash = await link();
  if (window.location.pathname === pathname) window.history.replaceState(null, "", pathname + search + hash);
}

async function packed(text: string): Promise<string> {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

async function through(bytes: Uint8Array<ArrayBuffer>, transform: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(transform)).arrayBuffer());
}
