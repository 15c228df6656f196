// The inbox: what waits for the user, from every conversation, program and other person; what the user waits for; what has ended.
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { Listed } from "../approvals/request";
import type { QuestionList, QuestionSummary } from "../shared/client";
import { Loading } from "../shared/states";
import { Confirmation } from "./confirmation";
import { Question } from "./question";
import { listQuestions, loadInbox, pages, useEvery, waiting } from "./store";
import type { Which } from "./store";

const LISTS: readonly (readonly [Which, string, string])[] = [
  [
    "for_me",
    "Waits for you",
    "Nothing waits for you. What the assistant, a program that uses your tools, or another person has to ask you first appears here by itself.",
  ],
  ["own", "You asked others", "None of your calls waits for an approval, or did lately."],
  ["ended", "Ended", "No question to you has ended lately."],
];

export function InboxView({ id }: { id: string | null }): VNode {
  return (
    <main class="inbox" tabindex={0}>
      <header class="view-title">
        <h1>{id === null ? "Inbox" : "Question"}</h1>
      </header>
      {id === null ? <Lists /> : <Question key={id} id={id} />}
    </main>
  );
}

function Lists(): VNode {
  const [which, setWhich] = useState<Which>("for_me");
  const empty = LISTS.find(([name]) => name === which)?.[2] ?? "";
  return (
    <>
      <div class="ranges" role="group" aria-label="Which questions">
        {LISTS.map(([name, text]) => (
          <button key={name} type="button" aria-pressed={which === name} onClick={() => setWhich(name)}>
            {text}
          </button>
        ))}
      </div>
      {which === "for_me" ? <ForMe empty={empty} /> : <Others key={which} which={which} empty={empty} />}
    </>
  );
}

/** What waits for this user: a card that is answered here, or a request that is answered where all of it is shown. */
function ForMe({ empty }: { empty: string }): VNode {
  const found = waiting.value;
  // What was shown once stays where it is until the view is left: no other card may move under the pointer.
  const shown = useRef(new Map<string, QuestionSummary>());
  useEffect(() => () => void (pages.value = 1), []);
  const open = new Set(found?.questions.map(({ id }) => id));
  for (const one of shown.current.values()) if (!one.card && !open.has(one.id)) shown.current.delete(one.id);
  for (const one of found?.questions ?? []) shown.current.set(one.id, one);
  const more = (): void => {
    pages.value += 1;
    void loadInbox().catch(() => undefined);
  };
  return (
    <Rows
      found={found && { ...found, questions: [...shown.current.values()] }}
      empty={empty}
      more={more}
      row={(one, index) =>
        one.shown ? (
          <Confirmation question={one} card={one.shown} open={open.has(one.id)} number={index + 1} />
        ) : (
          <Listed request={one} />
        )
      }
    />
  );
}

function Others({ which, empty }: { which: Which; empty: string }): VNode {
  const [count, setCount] = useState(1);
  const [found, setFound] = useState<QuestionList | null>(null);
  useEvery(() => void listQuestions(which, count).then(setFound, () => undefined), [which, count]);
  return <Rows found={found} empty={empty} more={() => setCount(count + 1)} row={(one) => <Listed request={one} />} />;
}

interface RowsProps {
  readonly found: QuestionList | null;
  readonly empty: string;
  readonly more: () => void;
  readonly row: (one: QuestionSummary, index: number) => VNode;
}

function Rows({ found, empty, more, row }: RowsProps): VNode {
  if (!found) return <Loading what="the questions" />;
  if (found.questions.length === 0) return <p class="state-text">{empty}</p>;
  return (
    <>
      <ul class="waiting">
        {found.questions.map((one, index) => (
          <li key={one.id}>{row(one, index)}</li>
        ))}
      </ul>
      {found.next && (
        <button type="button" onClick={more}>
          More
        </button>
      )}
    </>
  );
}
