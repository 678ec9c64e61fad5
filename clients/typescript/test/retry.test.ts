import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { AnswerTooLargeError, ApiError, type ClientOptions, ConnectionError, createClient, defaultTimeoutMs, type Letterhead, TimeoutError } from "letterhead-client";

type Step = (response: ServerResponse, request: IncomingMessage) => void;

const date = "Mon, 30 Nov 2026 10:00:00 GMT";
const sevenSecondsLater = "Mon, 30 Nov 2026 10:00:07 GMT";

/** A step that answers with a status, an error code of the API if one is given, and headers. */
function answers(status: number, code?: string, headers: Record<string, string> = {}): Step {
  return (response) => {
    const body = code ? { error: { code, message: "Try again.", docs: "http://docs/", details: { retry_after: 1 } } } : "<html>";
    response.writeHead(status, { "X-Request-Id": "r1", Date: date, ...headers }).end(typeof body === "string" ? body : JSON.stringify(body));
  };
}
const found: Step = (response) => void response.writeHead(200).end('{"name":"Acme"}');
const drops: Step = (response) => void response.socket?.destroy();
const dropsInTheBody: Step = (response) => {
  response.writeHead(200, { "Content-Length": "100" });
  response.write('{"name"', () => response.socket?.destroy());
};
const silent: Step = () => {};

describe("a client of a server with faults", () => {
  const server = createServer((request, response) => {
    received.push(request);
    request.resume();
    (steps.shift() ?? assert.fail("a request too many"))(response, request);
  });
  let received: IncomingMessage[];
  let steps: Step[];
  /** The waits between attempts, in milliseconds. They end at once. */
  let waits: number[];
  /** Is called when the client begins to wait. */
  let waiting: () => void;
  let jitter: number;

  beforeEach(async () => {
    [received, waits, jitter, waiting] = [[], [], 0, () => {}];
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const timer = globalThis.setTimeout;
    mock.method(globalThis, "setTimeout", (run: () => void, ms: number) => {
      const isOurs = new Error().stack?.includes("dist/retry.js"); // fetch sets timers, too
      if (!isOurs || timeouts.includes(ms)) return timer(run, ms);
      waits.push(ms);
      waiting();
      return timer(run, 0);
    });
    mock.method(Math, "random", () => jitter);
  });
  afterEach(async () => {
    mock.restoreAll();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });

  /** The timeouts of attempts that the tests use, which are no waits. */
  const timeouts = [defaultTimeoutMs, 50];

  function client(script: Step[], options: Partial<ClientOptions> = {}): Letterhead {
    steps = script;
    const { port } = server.address() as AddressInfo;
    return createClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey: "lh_sk_test", ...options });
  }

  for (const [name, script, expected] of [
    ["429 with seconds", [answers(429, "rate_limited", { "Retry-After": "3" }), found], [3000]],
    ["429 with a date", [answers(429, "rate_limited", { "Retry-After": sevenSecondsLater }), found], [7000]],
    ["a date that has passed", [answers(503, "upstream_failed", { "Retry-After": "Mon, 30 Nov 2026 09:00:00 GMT" }), found], [0]],
    ["a wait that is neither", [answers(503, "upstream_failed", { "Retry-After": "-5" }), found], [0]],
    ["503, then 500", [answers(503, "upstream_failed", { "Retry-After": "1" }), answers(500, "internal_error"), found], [1000, 0]],
    ["502 and 504 of a proxy", [answers(502), answers(504), found], [0, 0]],
    ["a lost connection", [drops, dropsInTheBody, found], [0, 0]],
  ] as [string, Step[], number[]][]) {
    test(`a look-up is repeated after ${name}, with the same key`, async () => {
      assert.equal((await client(script).brand("acme.com")).data.name, "Acme");
      assert.deepEqual(waits, expected);
      assert.equal(received.length, expected.length + 1);
      const keys = new Set(received.map((request) => request.headers["idempotency-key"]));
      assert.equal(keys.size, 1);
      assert.match([...keys][0] as string, /^[0-9a-f]{32}$/);
    });
  }

  test("a batch is repeated with its body", async () => {
    const bodies: string[] = [];
    const collects = (next: Step): Step => (response, request) => {
      let body = "";
      request.on("data", (part: Buffer) => (body += part)).on("end", () => next(response, request)).on("end", () => bodies.push(body));
    };
    const batch: Step = (response) => void response.end('{"results":[]}');
    await client([collects(answers(503, "upstream_failed")), collects(batch)]).brands(["acme.com"]);
    assert.deepEqual(bodies, ['{"identifiers":["acme.com"]}', '{"identifiers":["acme.com"]}']);
  });

  for (const [name, script, attempts] of [
    ["402", [answers(402, "insufficient_credits", { "Retry-After": "1" })], 1],
    ["404", [answers(404, "not_found")], 1],
    ["422 of a blocked crawl", [answers(422, "fetch_blocked")], 1],
    ["502 of a crawl, which the service remembers", [answers(502, "fetch_failed")], 1],
    ["504 of a crawl, which the service remembers", [answers(504, "timeout")], 1],
    ["429 until next month", [answers(429, "quota_exceeded", { "Retry-After": "777600" })], 1],
    ["429 in every attempt", Array(3).fill(answers(429, "rate_limited", { "Retry-After": "1" })), 3],
  ] as [string, Step[], number][]) {
    test(`a look-up fails after ${name}`, async () => {
      await assert.rejects(client(script).brand("acme.com"), (error) => {
        assert(error instanceof ApiError);
        assert.deepEqual([error.attempts, error.requestId], [attempts, "r1"]);
        return true;
      });
      assert.equal(received.length, attempts);
    });
  }

  test("the error of the longest wait says when the request may be sent", async () => {
    const quota = answers(429, "quota_exceeded", { "Retry-After": "61" });
    await assert.rejects(client([quota]).search("acme"), (error) => {
      assert(error instanceof ApiError && error.is("quota_exceeded"));
      const seconds: number = error.details.retry_after;
      assert.deepEqual([error.retryAfter, seconds], [61, 1]);
      return true;
    });
  });

  test("waits grow, and have jitter", async () => {
    jitter = 0.5;
    const failure = answers(500, "internal_error");
    await assert.rejects(client(Array(8).fill(failure), { maxRetries: 7 }).account());
    assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 4000, 4000]);
    waits = [];
    await client([answers(429, "rate_limited", { "Retry-After": "2" }), found]).account();
    assert.deepEqual(waits, [2250]);
  });

  test("a request that may not be repeated is sent once", async () => {
    await assert.rejects(client([answers(503, "upstream_failed")]).checkout({ pack: "small" }), ApiError);
    await assert.rejects(client([drops]).checkout({ pack: "small" }), ConnectionError);
    await assert.rejects(client([answers(500)], { maxRetries: 0 }).account(), ApiError);
  });

  test("an idempotency key that an operation does not take allows no repeat", async () => {
    const { http } = client([answers(503, "upstream_failed")]);
    const headers = { "Idempotency-Key": "order-4711" };
    await assert.rejects(http.POST("/v1/billing/checkout", { body: { pack: "small" }, headers }), ApiError);
    assert.equal(received[0]?.headers["idempotency-key"], "order-4711");
  });

  test("an answer that is too large is not requested again", async () => {
    const large: Step = (response) => void response.end(Buffer.alloc(64 * 1024 * 1024 + 1));
    await assert.rejects(client([large]).account(), (error) => error instanceof AnswerTooLargeError && error.attempts === 1);
  });

  test("the body of a 304 is dropped", async () => {
    const unchanged = () => Promise.resolve(Object.defineProperty(new Response("a body"), "status", { value: 304 }));
    assert.equal((await client([], { fetch: unchanged }).brandIfChanged("acme.com", '"1"')).data, undefined);
  });

  test("an answer that takes too long is a TimeoutError", async () => {
    await assert.rejects(client([silent, silent], { timeoutMs: 50, maxRetries: 1 }).account(), (error) => {
      assert(error instanceof TimeoutError);
      assert.deepEqual([error.name, error.attempts, error.message], ["TimeoutError", 2, "GET /v1/me: no answer within 50 ms"]);
      return true;
    });
  });

  test("the caller's signal ends an attempt and a wait, with its reason", async () => {
    const reason = new Error("the page was closed");
    const leaves = new AbortController();
    await assert.rejects(client([() => leaves.abort(reason)]).account({ signal: leaves.signal }), reason);

    const during = new AbortController();
    waiting = () => queueMicrotask(() => during.abort(reason));
    await assert.rejects(client([answers(503, "upstream_failed")]).brand("acme.com", { signal: during.signal }), reason);
    assert.equal(received.length, 2);

    await assert.rejects(client([]).account({ signal: AbortSignal.abort(reason) }), reason);
  });

  test("a ledger whose cursor does not move ends with an error", async () => {
    const page: Step = (response) => void response.end('{"entries":[],"next_cursor":"7"}');
    await assert.rejects(async () => {
      for await (const entry of client([page, page]).ledger()) assert.fail(entry.type);
    }, /next_cursor is 7 again/);
  });
});

test("options that are not valid are rejected, without the key", () => {
  const baseUrl = "https://brands.example.com";
  for (const options of [
    { baseUrl: "brands.example.com" },
    { baseUrl: "file:///tmp" },
    { baseUrl: `${baseUrl}/?a=b` },
    { baseUrl: "https://user:secret@brands.example.com" },
    { baseUrl, apiKey: "secret" },
    { baseUrl, apiKey: "lh_sk_secret\n" },
    { baseUrl, maxRetries: 11 },
    { baseUrl, maxRetries: 0.5 },
    { baseUrl, timeoutMs: 0 },
    { baseUrl, maxWaitMs: Infinity },
  ]) {
    assert.throws(() => createClient(options), (error) => error instanceof TypeError && !error.message.includes("secret"));
  }
});
