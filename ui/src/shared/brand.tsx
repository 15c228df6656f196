// The name of the program with its sign, as index.html shows it before the script runs.
import type { VNode } from "preact";
import { addressOf } from "./address";

export function Brand(): VNode {
  return (
    <a class="brand" href={addressOf("/chat")}>
      {/* Drawn here: an image would be one more document for the browser to load. */}
      <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
        <rect width="32" height="32" rx="8" />
        <path d="M9 10h7a7 7 0 0 1 7 7v2M9 12.5V22h11" />
        <circle cx="9" cy="10" r="3.2" />
        <circle cx="23" cy="22" r="3.2" />
        <circle cx="9" cy="22" r="3.2" />
      </svg>
      graph_agent
    </a>
  );
}
