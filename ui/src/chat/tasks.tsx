// The user's tasks beside the conversations, read again after each turn.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { getJson, whenSignedOut } from "../shared/client";
import type { TaskPage } from "../shared/client";
import { textOf } from "../shared/json";
import { Visible } from "../shared/visible";

const PAGE = 50;
/** Asked for when the chat is there, which it must not delay. */
const PAUSE_MS = 300;
const KINDS = { pending: "Open", completed: "Done" } as const;

const kind = signal<keyof typeof KINDS>("pending");
const shown = signal<TaskPage | null>(null);
let latest = 0;
whenSignedOut(() => (shown.value = null));

/** Fetch the first page again; with `more` the next page is added. */
export async function loadTasks(more = false): Promise<void> {
  latest += 1;
  const own = latest;
  const known = more ? (shown.value?.items ?? []) : [];
  const before = known.length > 0 ? `&before=${encodeURIComponent(textOf(known.at(-1)?.["id"]))}` : "";
  try {
    const page = await getJson<TaskPage>(`/api/tasks?limit=${PAGE}&status=${kind.value}${before}`);
    if (own === latest) shown.value = { ...page, items: [...known, ...page.items] };
  } catch {
    // What was shown stays; the next turn tries again.
  }
}

export function Tasks(): VNode | null {
  useEffect(() => {
    const timer = window.setTimeout(() => void loadTasks(), PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, []);
  const page = shown.value;
  if (!page) return null;
  return (
    <section class="tasks" aria-labelledby="tasks" tabindex={0}>
      <div class="panel-title">
        <h2 id="tasks">Tasks</h2>
        <div class="ranges" role="group" aria-label="Which tasks">
          {Object.entries(KINDS).map(([name, label]) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === kind.value}
              onClick={() => {
                kind.value = name as keyof typeof KINDS;
                void loadTasks();
              }}
            >
              {label}
            </button>
          ))}
        </div>
      </div>
      <ul>
        {page.items.map((task) => (
          <li key={textOf(task["id"])} class={textOf(task["status"])}>
            <Visible text={textOf(task["description"] ?? task["id"])} />
          </li>
        ))}
      </ul>
      {page.items.length === 0 && <p class="quiet">{kind.value === "pending" ? "Nothing to do." : "Nothing done yet."}</p>}
      {page.has_more && (
        <button type="button" class="more" onClick={() => void loadTasks(true)}>
          More
        </button>
      )}
    </section>
  );
}
