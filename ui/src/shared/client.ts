// Requests to the API. Types come from its OpenAPI document (`make page-types`).
import { signal } from "@preact/signals";
import { addressOf } from "./address";
import { hearServerTime } from "../clock";
import { parseJson } from "./json";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type ChatReply = Schemas["ChatReply"];
export type About = Schemas["About"];
export type OutcomeWords = Schemas["OutcomeWords"];
export type AgentDecision = Schemas["AgentDecision"];
export type TextAuthors = Schemas["TextAuthors"];
export type TextPart = Schemas["TextPart"];
export type SaidRow = Schemas["SaidRow"];
export type SaidTable = Schemas["SaidTable"];
export type PendingAction = Schemas["PendingAction"];
export type Card = Schemas["Card"];
export type CardCall = Schemas["CardCall"];
export type PendingCall = Schemas["PendingCall"];
export type Topology = Schemas["Topology"];
export type Conversation = Schemas["Conversation"];
export type ConversationSummary = Schemas["ConversationSummary"];
export type ConversationPage = Schemas["ConversationPage"];
export type QuestionSummary = Schemas["QuestionSummary"];
export type ShownFact = Schemas["ShownFact"];
export type AnsweredQuestion = Schemas["AnsweredQuestion"];
export type QuestionList = Schemas["QuestionList"];
export type ApprovalView = Schemas["ApprovalView"];
export type StoredMessage = Schemas["StoredMessage"];
export type DecisionPage = Schemas["DecisionPage"];
export type DecisionDetail = Schemas["DecisionDetail"];
export type LoggedDecision = Schemas["LoggedDecision"];
export type LoggedModelCall = Schemas["LoggedModelCall"];
export type VisitedState = Schemas["VisitedState"];
export type JudgedCall = Schemas["JudgedCall"];
export type ModelRequest = Schemas["ModelRequest"];
export type LLMMessage = Schemas["LLMMessage"];
export type LLMResponse = Schemas["LLMResponse"];
export type ToolInvocation = Schemas["ToolInvocation"];
export type ConstitutionText = Schemas["ConstitutionText"];
export type Rules = Schemas["Rules"];
export type ToolRow = Schemas["ToolRow"];
export type ConditionRow = Schemas["ConditionRow"];
export type UndoneCall = Schemas["UndoneCall"];
export type UndoneDecision = Schemas["UndoneDecision"];
export type UndoState = Schemas["UndoState"];
export type Session = Schemas["SignedInUser"];
export type OpenStops = Schemas["OpenStops"];
export type Mandate = Schemas["MandateSummary"];
export type MandateList = Schemas["MandateList"];
export type PlanOfDecision = Schemas["PlanOfDecision"];
export type TaskPage = Schemas["TaskPage"];
export type Metrics = Schemas["MetricsSummary"];
/** Declared by hand: the server describes its sign-in only where it has one. */
export interface SignInStart {
  readonly authorization_endpoint: string;
  readonly client_id: string;
  readonly scope: string;
  readonly state: string;
  readonly code_challenge: string;
}

/** How a user signs in: with the `link` that `serve` prints, with a `bearer` token, or at an `oidc` issuer. */
export const signInWay = document.documentElement.dataset["signIn"] ?? "link";
/** The path at which the browser comes back from the issuer. */
export const RETURN_PATH = "/signed-in";
// A cookie that scripts cannot read may have the session; the first request that is refused says that it does not.
export const signedIn = signal(window.location.pathname !== addressOf(RETURN_PATH));
/** Why the user has been signed out, if it was not their wish. */
export const signOutReason = signal("");
/** False after a request that got no answer, until one gets an answer. */
export const online = signal(true);

// Counts the sign-ins of this tab.
let session = 0;
let wasAccepted = false;

/** Show the views: the browser has a cookie with a session. */
export function signIn(): void {
  session += 1;
  wasAccepted = false;
  signOutReason.value = "";
  signedIn.value = true;
}

const forgetters: (() => void)[] = [];

/** Call `forget` when the user is signed out: whoever signs in next in this tab may be somebody else. */
export function whenSignedOut(forget: () => void): void {
  forgetters.push(forget);
}

export function signOut(): void {
  wasAccepted = false;
  for (const forget of forgetters) forget();
  signedIn.value = false;
}

/** An answer of the API that is not a success. `message` may be shown. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, signal ? { signal } : {});
  return parseJson(await response.text()) as T;
}

export function post(body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } };
}

/** Send a request to a path of this server; throws `ApiError` for every answer that is not a success, and with code OFFLINE if there is none. */
export async function request(path: string, init: RequestInit): Promise<Response> {
  const begunIn = session;
  const sent = Date.now();
  let response: Response;
  try {
    response = await fetch(addressOf(path), { credentials: "same-origin", ...init });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    online.value = false;
    throw new ApiError(0, "OFFLINE", "The server cannot be reached.");
  }
  online.value = true;
  hearServerTime(response.headers.get("date"), sent);
  if (response.ok) {
    wasAccepted = true;
    return response;
  }
  // A late answer to an earlier session says nothing about the present one.
  if (response.status === 401 && signedIn.value && begunIn === session) {
    if (wasAccepted) signOutReason.value = "You are signed out: your sign-in has expired. Sign in again to go on.";
    signOut();
  }
  const body: unknown = await response.json().catch(() => null);
  const error = (body as { error?: { code?: string; message?: string } } | null)?.error;
  throw new ApiError(response.status, error?.code ?? "UNKNOWN", error?.message ?? `The server answered ${response.status}.`);
}
