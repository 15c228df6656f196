// Requests for the approval of other people: those that wait for this user, the user's own, and those that have ended.
import { getJson, post, request } from "../shared/client";
import type { ApprovalList, ApprovalSummary, ApprovalView } from "../shared/client";
import { parseJson } from "../shared/json";

export type Which = "waiting" | "own" | "ended";

/** How often an open request is looked at again. */
export const EVERY_MS = 5000;

export async function listApprovals(which: Which): Promise<readonly ApprovalSummary[]> {
  return (await getJson<ApprovalList>(`/api/approvals?which=${which}`)).approvals;
}

export function readApproval(id: string): Promise<ApprovalView> {
  return getJson<ApprovalView>(`/api/approvals/${id}`);
}

export interface Answer {
  readonly approve: boolean;
  readonly digest: string;
  readonly role?: string;
  readonly reason?: string;
  readonly signature?: string;
}

export async function answerApproval(id: string, answer: Answer): Promise<ApprovalSummary> {
  return parseJson(await (await request(`/api/approvals/${id}/answer`, post(answer))).text()) as ApprovalSummary;
}

export async function cancelApproval(id: string): Promise<ApprovalSummary> {
  return parseJson(await (await request(`/api/approvals/${id}/cancel`, post({}))).text()) as ApprovalSummary;
}
