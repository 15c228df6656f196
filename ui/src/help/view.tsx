// The words of the page and what they mean.
import type { VNode } from "preact";
import { Outcome } from "../decisions/row";
import { OUTCOMES, WORDS } from "../shared/meanings";

export function HelpView(): VNode {
  return (
    <main class="help" tabindex={0}>
      <header class="view-title">
        <h1>Words</h1>
        <p class="quiet">
          The model proposes an action, code decides about it, and both are recorded. <code>docs/glossary.md</code> has all words.
        </p>
      </header>
      <dl class="words">
        {Object.entries(WORDS).map(([word, meaning]) => (
          <>
            <dt>{word}</dt>
            <dd>{meaning}</dd>
          </>
        ))}
      </dl>
      <h2>Outcomes of a decision</h2>
      <dl class="words">
        {Object.entries(OUTCOMES).map(([outcome, meaning]) => (
          <>
            <dt>
              <Outcome outcome={outcome} />
            </dt>
            <dd>{meaning}</dd>
          </>
        ))}
      </dl>
    </main>
  );
}
