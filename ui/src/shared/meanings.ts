// The words of the page, each explained in one sentence: for the view Help, and where they are shown.

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
