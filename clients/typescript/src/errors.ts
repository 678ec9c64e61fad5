import type { components } from "./schema.js";

/** The kind of an error. `/docs/errors#<code>` of the service explains each. */
export type ErrorCode = components["schemas"]["ErrorCode"];

/** Details that accompany some codes. */
export type ErrorDetails = components["schemas"]["ErrorDetails"];

/** The details that errors with this code always have. */
export type DetailsOf<C extends ErrorCode> = C extends "insufficient_credits"
  ? ErrorDetails & Required<Pick<ErrorDetails, "balance" | "required" | "billing_url">>
  : C extends "rate_limited" | "quota_exceeded"
    ? ErrorDetails & Required<Pick<ErrorDetails, "retry_after">>
    : ErrorDetails;

/** The class of every error that a request can end with, except the reason of the caller's own AbortSignal. */
export abstract class LetterheadError extends Error {
  /** How often the request was sent. */
  readonly attempts: number;

  constructor(message: string, attempts: number, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.attempts = attempts;
  }
}

/** An answer with a status of 400 or above. */
export class ApiError extends LetterheadError {
  readonly status: number;
  /** Undefined if the answer is not from the JSON API: errors of logos are plain text, and a proxy sends its own. */
  readonly code: ErrorCode | undefined;
  readonly details: ErrorDetails;
  /** URL of an explanation of the code. */
  readonly docs: string | undefined;
  /** Id of the request; quote it in questions about the request. */
  readonly requestId: string | undefined;
  /** Credits left after the request, where the answer has them. */
  readonly creditsRemaining: number | undefined;
  /** Seconds after which the request may be sent again, where the answer says so. */
  readonly retryAfter: number | undefined;

  constructor(response: Response, body: string, attempts: number) {
    const problem = problemIn(body);
    const requestId = response.headers.get("X-Request-Id") ?? undefined;
    const text = problem?.message ?? (body.slice(0, maxPlainText).trim() || response.statusText || "no explanation");
    const where = [`${response.status}${problem ? ` ${problem.code}` : ""}`, ...(requestId ? [`request ${requestId}`] : [])];
    super(`${text} (${where.join(", ")})`, attempts);
    this.status = response.status;
    this.code = problem?.code;
    this.details = problem?.details ?? {};
    this.docs = problem?.docs;
    this.requestId = requestId;
    this.creditsRemaining = numberIn(response.headers, "X-Credits-Remaining");
    this.retryAfter = secondsToWait(response.headers);
  }

  /** Reports whether the error has this code, and then gives `details` the fields of the code. */
  is<C extends ErrorCode>(code: C): this is ApiError & { readonly code: C; readonly details: DetailsOf<C> } {
    return this.code === code;
  }
}

/** No answer, or only a part of one: the network failed. `cause` has the reason. */
export class ConnectionError extends LetterheadError {}

/** An answer that is larger than the client reads. It is not requested again. */
export class AnswerTooLargeError extends LetterheadError {}

/** No answer within `timeoutMs`. */
export class TimeoutError extends LetterheadError {}

/** Characters of an answer in plain text that a message repeats. */
const maxPlainText = 500;

type Problem = components["schemas"]["ErrorObject"];

/** Returns the error in a body of the JSON API, or undefined if the body is something else. */
function problemIn(body: string): Problem | undefined {
  try {
    const error: unknown = (JSON.parse(body) as { error?: unknown } | null)?.error;
    const { code, message } = error as Partial<Problem>;
    return typeof code === "string" && typeof message === "string" ? (error as Problem) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the whole number in a header, or undefined. */
export function numberIn(headers: Headers, name: string): number | undefined {
  const value = headers.get(name);
  return value !== null && /^\d{1,15}$/.test(value) ? Number(value) : undefined;
}

/**
 * Returns the seconds in `Retry-After`, which has seconds or a date (RFC 9110, section 10.2.3), or undefined. A date is
 * compared with the server's clock where the answer has its `Date`, which pages of other origins cannot read.
 */
function secondsToWait(headers: Headers): number | undefined {
  const value = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(value)) {
    return Number(value);
  }
  const at = /^[A-Z][a-z]{2}, .* GMT$/.test(value) ? Date.parse(value) : NaN; // Date.parse alone reads "-5" as a year
  const now = Date.parse(headers.get("Date") ?? "") || Date.now();
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - now) / 1000));
}
