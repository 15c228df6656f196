// Copy buttons: the ids of a decision, and its message as a request on the command line.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { addressOf } from "../shared/address";
import { signInWay } from "../shared/client";
import type { DecisionDetail } from "../shared/client";
import { copy } from "../shared/download";

/** In single quotes a shell changes nothing. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The request that sends this message again, in a new conversation. */
function curl({ message }: DecisionDetail): string {
  const authorization = signInWay === "link" ? "@$HOME/.graph_agent/authorization" : '"Authorization: Bearer $TOKEN"';
  const body = quoted(JSON.stringify({ content: message }));
  return `curl -s ${window.location.origin}${addressOf("/api/chat")} -H ${authorization} -H 'content-type: application/json' -d ${body}`;
}

export function CopyButtons({ detail }: { detail: DecisionDetail }): VNode {
  const [said, setSaid] = useState("");
  const texts: [string, string][] = [
    ["Decision id", detail.decision_id],
    ["Conversation id", detail.conversation_id],
    ["Request as curl", curl(detail)],
  ];
  return (
    <section class="block">
      <h2>Copy</h2>
      <div class="buttons">
        {texts.map(([name, text]) => (
          <button
            key={name}
            type="button"
            onClick={() => void copy(text, `${name}.txt`).then((done) => setSaid(`${name} ${done ? "copied" : "saved as a file"}.`))}
          >
            {name}
          </button>
        ))}
        <span class="quiet" role="status">
          {said}
        </span>
      </div>
    </section>
  );
}
