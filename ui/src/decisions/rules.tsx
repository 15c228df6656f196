// The rules under which a decision was made, as they were then, and what is different now.
import type { VNode } from "preact";
import { isOperator } from "../shared/about";
import { addressOf } from "../shared/address";
import { getJson } from "../shared/client";
import type { ConstitutionText, DecisionDetail } from "../shared/client";
import { download } from "../shared/download";
import { parseJson } from "../shared/json";
import { useLoaded } from "../shared/loading";
import { ErrorState, Loading } from "../shared/states";
import { Visible, visible } from "../shared/visible";
import { changedLines } from "../lab/lines";

interface Loaded {
  readonly detail: DecisionDetail;
  /** By the digests that the record has; a text may have been pruned. */
  readonly texts: ReadonlyMap<string, string>;
  readonly digests: Readonly<Record<"constitution" | "conditions", string | undefined>>;
  readonly inForce: ConstitutionText;
}

interface Exported {
  readonly type: string;
  readonly digest?: string;
  readonly text?: string;
  readonly record?: { readonly header: Loaded["digests"] };
}

async function load(id: string, signal: AbortSignal): Promise<Loaded> {
  const url = `/api/decisions/${encodeURIComponent(id)}`;
  const [detail, exported, inForce] = await Promise.all([
    getJson<DecisionDetail>(url, signal),
    getJson<readonly Exported[]>(`${url}/record`, signal),
    getJson<ConstitutionText>("/api/constitution", signal),
  ]);
  const texts = new Map(exported.flatMap(({ digest, text }) => (digest && text !== undefined ? [[digest, text] as const] : [])));
  const header = exported.find(({ record }) => record)?.record?.header;
  const digests = { constitution: header?.constitution, conditions: header?.conditions };
  return { detail, texts, digests, inForce };
}

export function DecisionRulesView({ id }: { id: string | null }): VNode {
  const { value, error, retry } = useLoaded((signal) => load(id ?? "", signal), [id]);
  if (error) return <ErrorState error={error} retry={retry} />;
  if (!value) return <Loading what="the rules" />;
  const { detail, texts, digests, inForce } = value;
  return (
    <main class="decision" tabindex={0}>
      <header class="view-title">
        <a class="back" href={addressOf(`/decisions/${detail.decision_id}`)}>
          {visible(detail.title)}
        </a>
        <h1>Rules of this decision</h1>
        {isOperator() && (
          <a class="button" href={addressOf(`/lab/${detail.decision_id}`)}>
            Try other rules
          </a>
        )}
        <p class="quiet">The texts as the record has them: those that decided then.</p>
      </header>
      <RulesText
        title="Constitution"
        digest={digests.constitution}
        text={texts.get(digests.constitution ?? "")}
        now={inForce.text}
        file="constitution.md"
        link={`/decisions?constitution=${digests.constitution}`}
      />
      <RulesText
        title="Conditions"
        digest={digests.conditions}
        text={conditionsOf(texts.get(digests.conditions ?? ""))}
        now={inForce.conditions ?? ""}
        file="policy.cedar"
      />
    </main>
  );
}

/** The text of the conditions. The record has it as JSON, together with the settings that it depends on. */
function conditionsOf(recorded: string | undefined): string | undefined {
  return recorded === undefined ? undefined : (parseJson(recorded) as { readonly conditions: string }).conditions;
}

interface Props {
  readonly title: string;
  /** Undefined if the decision had no such rules. */
  readonly digest: string | undefined;
  /** Undefined if the log does not have it any more. */
  readonly text: string | undefined;
  /** The text in force. */
  readonly now: string;
  readonly file: string;
  /** The decisions under the same text. */
  readonly link?: string;
}

function RulesText({ title, digest, text, now, file, link }: Props): VNode {
  if (!digest || text === undefined) {
    return (
      <section class="block rules-text" aria-label={title}>
        <h2>{title}</h2>
        <p class="quiet">{digest ? "The log does not have this text any more." : `This decision was made without ${title.toLowerCase()}.`}</p>
      </section>
    );
  }
  const changes = changedLines(text, now);
  return (
    <section class="block rules-text" aria-label={title}>
      <div class="panel-title">
        <h2>{title}</h2>
        <code class="quiet" title={digest}>
          {digest.slice(0, 12)}
        </code>
        <span class="quiet">{changes.length === 0 ? "the same is in force now" : "another text is in force now"}</span>
        {link && <a href={addressOf(link)}>its decisions</a>}
        <button type="button" class="plain" onClick={() => download(file, "text/plain", text)}>
          Download
        </button>
      </div>
      <pre tabindex={0}>
        <Visible text={text} />
      </pre>
      {changes.length > 0 && (
        <>
          <h3>What is different now</h3>
          <ul class="changed-lines" aria-label="What is different now">
            {changes.map((line, index) => (
              <li key={index} class={line.kind}>
                <Visible text={line.text || " "} />
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
