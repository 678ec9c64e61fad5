import { AnswerTooLargeError, ApiError, ConnectionError, type LetterheadError, TimeoutError } from "./errors.js";

/** How requests are sent. */
export interface Sending {
  fetch: (request: Request) => Promise<Response>;
  maxRetries: number;
  timeoutMs: number;
  maxWaitMs: number;
}

/** The first wait is at most firstBackoffMs, and each wait at most twice the one before, up to maxBackoffMs. */
const firstBackoffMs = 500;
const maxBackoffMs = 8_000;

/** Bytes of an answer. A batch of 100 brands has a few MB. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** Statuses of answers without a body. Response refuses one, although a replaced fetch may have it. */
const withoutBody = [204, 205, 304];

/**
 * Sends a request until it has an answer below 400, and throws an error otherwise. A request that may be repeated,
 * because it only reads or its operation takes its idempotency key, is sent again, at most `maxRetries` times, after a
 * failure that may pass. It is sent unchanged.
 */
export async function send(request: Request, keyed: boolean, sending: Sending): Promise<Response> {
  // A look-up costs a credit although it is a GET; it has an idempotency key, so that its repeats cost nothing.
  const repeatable = keyed || ["GET", "HEAD"].includes(request.method);
  for (let attempt = 1; ; attempt++) {
    const last = !repeatable || attempt > sending.maxRetries;
    const outcome = await sendOnce(last ? request : request.clone(), sending, attempt);
    if (outcome instanceof Response) {
      return outcome;
    }
    // The jitter is added to Retry-After, too, because all clients that exceed a minute's limit wait for its end.
    const backoff = Math.random() * Math.min(maxBackoffMs, firstBackoffMs * 2 ** (attempt - 1));
    const wait = retryAfterMs(outcome) + backoff;
    if (last || !mayPass(outcome) || wait > sending.maxWaitMs) {
      throw outcome;
    }
    await sleep(wait, request.signal);
  }
}

/** Sends a request once and reads the whole answer. It throws only the reason of the request's own signal. */
async function sendOnce(request: Request, sending: Sending, attempts: number): Promise<Response | LetterheadError> {
  // AbortSignal.any would do this in newer browsers.
  const stop = new AbortController();
  const abort = () => stop.abort(request.signal.reason);
  request.signal.throwIfAborted();
  request.signal.addEventListener("abort", abort);
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    stop.abort();
  }, sending.timeoutMs);
  try {
    const response = await sending.fetch(new Request(request, { signal: stop.signal }));
    const body = await read(response, attempts);
    if (response.status >= 400) {
      return new ApiError(response, new TextDecoder().decode(body ?? undefined), attempts);
    }
    const { status, statusText, headers } = response;
    return new Response(withoutBody.includes(status) ? null : body, { status, statusText, headers });
  } catch (cause) {
    request.signal.throwIfAborted();
    if (cause instanceof AnswerTooLargeError) {
      return cause;
    }
    const target = `${request.method} ${new URL(request.url).pathname}`;
    if (expired) {
      return new TimeoutError(`${target}: no answer within ${sending.timeoutMs} ms`, attempts, { cause });
    }
    return new ConnectionError(`${target}: ${cause instanceof Error ? cause.message : String(cause)}`, attempts, { cause });
  } finally {
    clearTimeout(timer);
    request.signal.removeEventListener("abort", abort);
  }
}

/** Reads a body, so that the timeout and the repeats cover it. It returns null for an answer without one. */
async function read(response: Response, attempts: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (response.body === null) {
    return null;
  }
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    length += next.value.length;
    if (length > maxAnswerBytes) {
      await reader.cancel();
      throw new AnswerTooLargeError(`the answer has more than ${maxAnswerBytes} bytes`, attempts);
    }
    parts.push(next.value);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Reports whether a failure may be gone when the request is sent again. */
function mayPass(failure: LetterheadError): boolean {
  if (!(failure instanceof ApiError)) {
    return !(failure instanceof AnswerTooLargeError);
  }
  switch (failure.status) {
    case 429:
    case 500:
    case 503:
      return true;
    case 502:
    case 504:
      // With a code, the site of the domain failed, which the service remembers for minutes. Without, a proxy failed.
      return failure.code === undefined;
    default:
      return false; // 402 among them: only more credits help
  }
}

function retryAfterMs(failure: LetterheadError): number {
  return failure instanceof ApiError ? (failure.retryAfter ?? 0) * 1000 : 0;
}

/** Waits; if the signal aborts meanwhile, it throws the signal's reason. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal.aborted) {
      abort();
    } else {
      signal.addEventListener("abort", abort, { once: true });
    }
  });
}
