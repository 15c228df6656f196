// The constitution to decide by: edited in the page, nowhere else.
import { effect, signal } from "@preact/signals";
import type { VNode } from "preact";
import { WORDS } from "../shared/meanings";
import { Visible } from "../shared/text";
import { changedLines } from "./lines";

const STORAGE_KEY = "graph_agent.constitution";

/** The edited text; null while it is the original one. The tab keeps it from one decision to the next, and when it is reloaded. */
export const edited = signal<string | null>(sessionStorage.getItem(STORAGE_KEY));

effect(() => {
  if (edited.value === null) sessionStorage.removeItem(STORAGE_KEY);
  else sessionStorage.setItem(STORAGE_KEY, edited.value);
});

interface Props {
  readonly original: string;
  readonly source: string;
}

export function Editor({ original, source }: Props): VNode {
  const text = edited.value ?? original;
  const changes = edited.value === null ? [] : changedLines(original, text);
  return (
    <section class="block editor">
      <div class="panel-title">
        <h2 id="constitution" title={WORDS["Constitution"]}>
          Constitution
        </h2>
        <span class="progress-text">{changes.length > 0 ? "edited" : source}</span>
      </div>
      <textarea
        aria-labelledby="constitution"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          const value = event.currentTarget.value;
          edited.value = value === original ? null : value;
        }}
      />
      {changes.length > 0 && (
        <ul class="changed-lines" aria-label="Changed lines">
          {changes.map((line, index) => (
            <li key={index} class={line.kind}>
              <Visible text={line.text || " "} />
            </li>
          ))}
        </ul>
      )}
      {changes.length > 0 ? (
        <button type="button" class="plain" onClick={() => (edited.value = null)}>
          Undo the changes
        </button>
      ) : (
        <p class="quiet">
          Edit a line, for example append <code>(requires confirmation)</code> to the line of a tool, and run it on the last
          decisions. The server's own constitution stays as it is.
        </p>
      )}
    </section>
  );
}
