// The name of the program with its sign, as index.html shows it before the script runs.
import type { VNode } from "preact";
import { addressOf } from "./address";

const { name = "graph_agent", logo = "" } = document.documentElement.dataset;

/** The name of the page, which a setting may replace. */
export const NAME = name;

export function Brand(): VNode {
  return (
    <a class="brand" href={addressOf("/chat")}>
      {logo ? <img src={addressOf(logo)} alt="" /> : <Drawn />}
      <span>{NAME}</span>
    </a>
  );
}

/** Drawn here: an image would be one more document for the browser to load. */
function Drawn(): VNode {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M9 10h7a7 7 0 0 1 7 7v2M9 12.5V22h11" />
      <circle cx="9" cy="10" r="3.2" />
      <circle cx="23" cy="22" r="3.2" />
      <circle cx="9" cy="22" r="3.2" />
    </svg>
  );
}
