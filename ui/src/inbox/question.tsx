// One question with everything that its call would do: a request for approval, or a card of the user's own.
import { useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { ApiError } from "../shared/client";
import type { ApprovalView as Shown, QuestionSummary } from "../shared/client";
import { textOf } from "../shared/json";
import { Loading } from "../shared/states";
import { Visible } from "../shared/visible";
import { cardOf, Facts, LookedUp, Row, when } from "../approvals/request";
import { Confirmation } from "./confirmation";
import { answerQuestion, cancelQuestion, readQuestion, useEvery } from "./store";

export function Question({ id }: { id: string }): VNode {
  const [shown, setShown] = useState<Shown | QuestionSummary | null>(null);
  const [failure, setFailure] = useState("");
  const load = (): void =>
    void readQuestion(id).then(setShown, (error: unknown) => error instanceof ApiError && setFailure(error.message));
  useEvery(load, [id]);
  if (!shown) return failure ? <p role="alert">{failure}</p> : <Loading what="the question" />;
  if (shown.shown) return <Confirmation question={shown} card={shown.shown} open={shown.state === "open"} />;
  return <Request shown={shown as Shown} failure={failure} setFailure={setFailure} load={load} />;
}

interface RequestProps {
  readonly shown: Shown;
  readonly failure: string;
  readonly setFailure: (failure: string) => void;
  readonly load: () => void;
}

function Request({ shown, failure, setFailure, load }: RequestProps): VNode {
  const { id } = shown;
  // Pressed again after a lost connection, it is the same request.
  const key = useRef(crypto.randomUUID());
  const act = async (work: Promise<unknown>): Promise<void> => {
    setFailure("");
    try {
      await work;
    } catch (error) {
      if (error instanceof ApiError) setFailure(error.message);
    }
    load();
  };
  const open = shown.state === "open";
  return (
    <section class={cardOf(shown)} aria-label="Request">
      <header>
        <h2>{shown.state_words}</h2>
        <span class="time">{when(shown)}</span>
      </header>
      <p class="change">
        <Visible text={shown.title} />
      </p>
      <dl>
        <Row name="Asked by" text={`${shown.requester}${shown.by_program ? ", with a program" : ""}`} />
        {Object.entries(shown.arguments).map(([name, value]) => (
          <Row
            key={name}
            name={`${name}${shown.named_in_message[name] ? "" : " (not in the message)"}`}
            text={textOf(value)}
            origin={shown.origins[name] ?? ""}
          />
        ))}
        <Row name="It acts on" text={shown.object_then} />
        {shown.object_now !== null && shown.object_now !== shown.object_then && (
          <Row name="It acts now on" text={shown.object_now} />
        )}
        <Facts facts={shown.facts} now={shown.facts_now} />
        {shown.looked_at && <LookedUp at={shown.looked_at} />}
        {shown.changed_since.map((text) => (
          <Row key={text} name="Changed since" text={text} />
        ))}
        {shown.changed_before && <Row name="Done before" text={shown.changed_before} />}
        {shown.earlier_messages.map((text, number) => (
          <Row key={number} name="Earlier message" text={text} />
        ))}
        <Row name="Message" text={shown.message} />
        {shown.calls.map((call, number) => (
          <Row key={number} name={`Call, ${call.became}`} text={`${call.tool} ${JSON.stringify(call.arguments)}`} />
        ))}
        <Row name="Rules" text={shown.rules.join("; ")} />
        <Row name="Roles" text={shown.roles.join(", ")} />
        {shown.answers.map((one) => (
          <Row
            key={one.approver}
            name={one.approve ? "Approved by" : "Denied by"}
            text={`${one.approver} as ${one.role}${one.reason && `: ${one.reason}`}`}
          />
        ))}
        {shown.earlier.map((one) => (
          <Row key={one.id} name="Earlier request for the same" text={`${one.id}, ${one.state}`} />
        ))}
      </dl>
      {shown.decided_elsewhere && (
        <p role="status">
          <Visible text={shown.decided_elsewhere} />
        </p>
      )}
      {open && shown.yours && !shown.yours.answer && (
        <Answering
          shown={shown}
          onAnswer={(approve, reason, signature) => {
            const signed = signature && { signature };
            void act(answerQuestion(id, { yes: approve, digest: shown.digest, reason, ...signed }, key.current));
          }}
        />
      )}
      {shown.yours?.answer && <p role="status">You have answered this request.</p>}
      {open && shown.yours === null && (
        <div class="buttons">
          <button type="button" onClick={() => void act(cancelQuestion(id))}>
            Withdraw
          </button>
        </div>
      )}
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {shown.closing_decision && (
        <p class="quiet">
          <a href={addressOf(`/decisions/${shown.closing_decision}`)}>Decision</a>
        </p>
      )}
    </section>
  );
}

interface AnsweringProps {
  readonly shown: Shown;
  readonly onAnswer: (approve: boolean, reason: string, signature: string) => void;
}

function Answering({ shown, onAnswer }: AnsweringProps): VNode {
  const [reason, setReason] = useState("");
  const [signature, setSignature] = useState("");
  const yours = shown.yours;
  const sign = yours?.to_sign.filter((one) => one.role === yours.roles[0]) ?? [];
  return (
    <>
      <p>
        <Visible text={yours?.effect_words ?? ""} />
      </p>
      <label>
        Reason, which the requester reads{" "}
        <input type="text" maxLength={1000} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
      {sign.map((one) => (
        <details key={String(one.approve)}>
          <summary>{one.approve ? "Text to sign to approve" : "Text to sign to deny"}</summary>
          <pre>{one.text}</pre>
        </details>
      ))}
      {sign.length > 0 && (
        <label>
          Signature of ssh-keygen{" "}
          <textarea rows={4} value={signature} onInput={(event) => setSignature(event.currentTarget.value)} />
        </label>
      )}
      <div class="buttons">
        <button type="button" class="primary" onClick={() => onAnswer(true, reason, signature)}>
          Approve
        </button>
        <button type="button" disabled={!reason.trim()} onClick={() => onAnswer(false, reason, signature)}>
          Deny
        </button>
      </div>
    </>
  );
}
