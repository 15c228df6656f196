// The words of the page, each explained in one sentence: for the view Help, and where they are shown.

/** What a rule in the shadow would have done with a call. */
export const SHADOW_WORDS: Readonly<Record<"asks" | "waits" | "refused" | "unknown", string>> = {
  asks: "would have asked the user about it",
  waits: "would have asked other people about it",
  refused: "would have refused it",
  unknown: "cannot be judged: the record does not have what it reads",
};

/** The ways to learn what became of a change whose answer was lost: a short word, and its meaning. */
export const PROOF_WORDS: Readonly<Record<"ledger" | "key" | "read" | "none", readonly [string, string]>> = {
  ledger: ["ledger", "If the answer is lost, the ledger of its server says whether it was done."],
  key: ["key", "If the answer is lost, the same call is sent again under its key: the server does it only once."],
  read: ["reconciled", "If the answer is lost, a read finds whether it was done."],
  none: ["unknown", "If the answer is lost, it stays unknown whether it was done."],
};

export const WORDS: Readonly<Record<string, string>> = {
  Constitution: "The file that lists what the assistant may do, and what you must confirm. The model reads it, and code enforces it.",
  Turn: "Everything from your message to the decision about it.",
  Round: "One call of the model, with the actions that it asks for. “Round 2 of 5” is the second one; after the last one the turn ends.",
  Guard: "The code that permits or refuses each action, by the constitution.",
  Refused: "An action that the model asked for and code did not permit. The decision names the rule.",
  Shadow: "A rule in the shadow is judged and recorded, and decides nothing: so it can be tried.",
  Receipt: "A line about a change that was made. Code or the server writes it, not the model.",
  Author: "Who wrote a text: the model (in serif type), code (sans serif) or a server (italic).",
  "Set aside": "A question to confirm that a later message has replaced. It can no longer be confirmed.",
  Ledger: "Where the tools note each change together with its key, so that it takes effect only once.",
  Seal: "The commitment to a decision's record in the signed tree. It verifies as long as nobody has changed the record.",
  "Tree size": "The leaves of the signed tree: records, reports, settlements and statements.",
};
