// The words of the page and what they mean.
import { Fragment } from "preact";
import type { VNode } from "preact";
import { about } from "../shared/about";
import { getJson } from "../shared/client";
import type { ConstitutionText } from "../shared/client";
import { useLoaded } from "../shared/loading";
import { Searchable } from "../shared/searchable";
import { visible } from "../shared/visible";
import { WORDS } from "../shared/meanings";

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
      <Tools />
      <h2>Outcomes of a decision</h2>
      <dl class="words">
        {about.value?.outcomes.map(
          ({ code, words, kind, meaning }) =>
            meaning && (
              <Fragment key={code}>
                <dt>
                  <span class={`outcome ${kind}`}>{visible(words)}</span>
                </dt>
                <dd>
                  {visible(meaning)} <code class="quiet">{code}</code>
                </dd>
              </Fragment>
            ),
        )}
      </dl>
    </main>
  );
}

/** What the constitution lets the assistant do. */
function Tools(): VNode | null {
  const { value } = useLoaded((signal) => getJson<ConstitutionText>("/api/constitution", signal), []);
  if (!value) return null;
  return (
    <section aria-label="Tools">
      <h2>What the assistant may do</h2>
      <Searchable label="Search the tools" items={value.tools} textOf={(tool) => `${tool.name} ${tool.title}`}>
        {(found) => (
          <dl class="words">
            {found.map((tool) => (
              <Fragment key={tool.name}>
                <dt>
                  <code>{visible(tool.name)}</code>
                </dt>
                <dd>
                  {visible(tool.title)}
                  {tool.requires_confirmation && <span class="quiet"> You are asked first.</span>}
                  {tool.max_per_message !== null && <span class="quiet"> At most {tool.max_per_message} per message.</span>}
                </dd>
              </Fragment>
            ))}
          </dl>
        )}
      </Searchable>
    </section>
  );
}
