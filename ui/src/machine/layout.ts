// Where each state and each edge of graph/topology.py is drawn, by hand: a test compares both with the topology.

export interface Place {
  readonly x: number;
  readonly y: number;
}

export const WIDTH = 372;
export const HEIGHT = 430;
export const NODE = { width: 136, height: 34 } as const;

/** The center of each state. The loop runs clockwise: down the left column and up the right one. */
export const PLACES: Readonly<Record<string, Place>> = {
  BUILD_REQUEST: { x: 100, y: 26 },
  INVOKE_LLM: { x: 100, y: 106 },
  CHECK_RESPONSE: { x: 100, y: 186 },
  EXECUTE_TOOLS: { x: 272, y: 186 },
  APPEND_RESULTS: { x: 272, y: 106 },
  CHECK_ITERATIONS: { x: 272, y: 26 },
  ERROR_RESPONSE: { x: 100, y: 284 },
  TIMEOUT_RESPONSE: { x: 272, y: 284 },
  BUILD_DECISION: { x: 186, y: 394 },
};

/** The path of each edge, from border to border. The last edge leads out of the picture and is not drawn. */
export const ROUTES: Readonly<Record<string, string>> = {
  "BUILD_REQUEST>INVOKE_LLM": "M100,43 V83",
  "BUILD_REQUEST>EXECUTE_TOOLS": "M168,26 C186,26 180,60 180,96 S184,186 198,186",
  "BUILD_REQUEST>BUILD_DECISION": "M32,26 H26 Q12,26 12,40 V380 Q12,394 26,394 H112",
  "INVOKE_LLM>CHECK_RESPONSE": "M100,123 V163",
  "CHECK_RESPONSE>EXECUTE_TOOLS": "M168,194 H198",
  "CHECK_RESPONSE>ERROR_RESPONSE": "M100,203 V261",
  "CHECK_RESPONSE>BUILD_DECISION": "M150,203 C156,232 176,240 176,276 V371",
  "EXECUTE_TOOLS>APPEND_RESULTS": "M272,169 V129",
  "EXECUTE_TOOLS>BUILD_DECISION": "M222,203 C216,232 196,240 196,276 V371",
  "APPEND_RESULTS>CHECK_ITERATIONS": "M272,89 V49",
  "CHECK_ITERATIONS>INVOKE_LLM": "M204,26 C184,26 190,106 174,106",
  "CHECK_ITERATIONS>TIMEOUT_RESPONSE": "M340,26 H346 Q360,26 360,40 V270 Q360,284 346,284",
  "TIMEOUT_RESPONSE>BUILD_DECISION": "M272,301 C272,340 232,336 232,371",
  "ERROR_RESPONSE>BUILD_DECISION": "M100,301 C100,340 140,336 140,371",
};

/** The words of a state: `INVOKE_LLM` reads "invoke LLM". */
export function label(state: string): string {
  return state.toLowerCase().replaceAll("_", " ").replace("llm", "LLM");
}
