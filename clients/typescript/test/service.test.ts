import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ApiError, type ClientOptions, createClient, type ErrorCode, type LedgerEntry, type Letterhead } from "letterhead-client";
import { type Service, serve } from "./service.js";

describe("a client of the built binary", () => {
  let service: Service;
  before(async () => {
    service = await serve();
  });
  after(() => service.stop());

  async function customer(options: Partial<ClientOptions> = {}): Promise<Letterhead> {
    return createClient({ baseUrl: service.url, apiKey: (await service.account()).secret, ...options });
  }

  async function credits(client: Letterhead): Promise<number> {
    return (await client.account()).data.credits.balance;
  }

  test("a look-up returns the brand, its cost and the account's limits", async () => {
    const client = await customer();
    const found = await client.brand("https://www.github.com/about");
    assert.equal(found.data.domain, "github.com");
    assert.equal(found.data.name, "GitHub");
    assert.equal(found.creditsRemaining, 49);
    assert.equal(found.rateLimit?.limit, 600);
    assert.match(found.etag ?? "", /^".+"$/);
    const cost = await client.explain(found.requestId ?? assert.fail("no request id"));
    assert.equal(cost.data.charged, 1);
    assert.equal((await client.brand(found.data.id)).data.domain, "github.com");
  });

  test("an unchanged brand is free and has no data", async () => {
    const client = await customer();
    const found = await client.brand("github.com");
    const again = await client.brandIfChanged("github.com", found.etag ?? assert.fail("no etag"));
    assert.equal(again.data, undefined);
    assert.equal(again.etag, found.etag);
    assert.equal((await client.brandIfChanged("github.com", '"other"')).data?.name, "GitHub");
    assert.equal(await credits(client), 48);
  });

  test("hasBrand reports what the index has, free", async () => {
    const client = await customer();
    assert.equal(await client.hasBrand("github.com"), true);
    assert.equal(await client.hasBrand("nothing-of-this-name.com"), false);
    await assert.rejects(client.hasBrand("localhost"), apiError(400, undefined));
    assert.equal(await credits(client), 50);
  });

  test("search, account, statement and logos", async () => {
    const client = await customer();
    assert.equal((await client.search("githb", { limit: 3 })).data[0]?.domain, "github.com");
    const account = (await client.account()).data;
    assert.equal(account.plan, "growth");
    assert.equal((await client.statement(account.period)).data.month, account.period);
    const url = client.logoUrl("github.com", { size: 64, format: "png", theme: "dark" });
    assert.equal(url, `${service.url}/logo/github.com?size=64&format=png&theme=dark`);
    const logo = await fetch(url);
    assert.equal(logo.headers.get("Content-Type"), "image/png");
    await logo.arrayBuffer();
  });

  test("errors have status, code, request id and details", async () => {
    const client = await customer();
    await assert.rejects(client.brand("localhost"), apiError(400, "invalid_domain"));
    await assert.rejects(client.brand("00000000-0000-4000-8000-000000000000"), apiError(404, "not_found"));
    await assert.rejects(client.search(""), apiError(400, "invalid_request"));
    const { publishable } = await service.account();
    await assert.rejects(createClient({ baseUrl: service.url, apiKey: publishable }).account(), apiError(403, "forbidden"));
    await assert.rejects(createClient({ baseUrl: service.url }).account(), apiError(401, "unauthorized"));
    await assert.rejects(client.checkout({ pack: "small" }), apiError(404, "not_found"));
    await assert.rejects(client.http.GET("/logo/{domain}", { params: { path: { domain: "x y" } } }), apiError(400, undefined));
  });

  test("402 has the balance and the price, and is sent once", async () => {
    let sent = 0;
    const client = await customer({
      fetch: (request) => {
        sent++;
        return fetch(request);
      },
    });
    const domains = new Set<string>();
    for (const letter of "abcdefgh") {
      for (const hit of (await client.search(letter, { limit: 20 })).data) {
        if (hit.brandId !== null) domains.add(hit.domain);
      }
    }
    const items = (await client.brands([...domains].slice(0, 100))).data;
    assert(items.some((item) => item.error?.code === "insufficient_credits"), "some of the items were not paid for");
    assert.equal(items.filter((item) => item.brand && item.brand.logos.length > 0).length, 50);
    sent = 0;
    await assert.rejects(client.brand("github.com"), (error) => {
      assert(apiError(402, "insufficient_credits")(error) && error.is("insufficient_credits"));
      const balance: number = error.details.balance;
      assert.deepEqual([balance, error.details.required, error.creditsRemaining], [0, 1, 0]);
      assert.equal(error.details.billing_url, `${service.url}/dashboard/credits`);
      return true;
    });
    assert.equal(sent, 1);
  });

  test("a batch has an item for each identifier", async () => {
    const client = await customer();
    const { data, creditsRemaining } = await client.brands(["github.com", "localhost", "jane@figma.com"]);
    assert.deepEqual(data.map((item) => item.brand?.domain ?? item.error?.code), ["github.com", "invalid_domain", "figma.com"]);
    assert.equal(creditsRemaining, 48);
  });

  test("a look-up and a batch whose answers were lost are repeated and charged once", async () => {
    const keys: (string | null)[] = [];
    let lost = 0;
    const client = await customer({
      fetch: async (request) => {
        keys.push(request.headers.get("Idempotency-Key"));
        const response = await fetch(request);
        const body = await response.arrayBuffer();
        if (request.url.includes("/brands/") && lost++ % 2 === 0) throw new TypeError("the connection was reset");
        return new Response(body, response);
      },
    });
    assert.equal((await client.brand("github.com")).data.name, "GitHub");
    assert.equal((await client.brands(["figma.com", "stripe.com"])).data.length, 2);
    assert.equal(await credits(client), 47);
    assert.equal(keys.length, 5);
    const [first, second, third, fourth, free] = keys;
    assert.match(first ?? "", /^[0-9a-f]{32}$/);
    assert.deepEqual([second, fourth, free], [first, third, null]);
    assert.notEqual(first, third);
  });

  test("calls with one idempotency key of the caller are charged once", async () => {
    const client = await customer();
    const first = await client.brand("github.com", { idempotencyKey: "order-4711" });
    const second = await client.brand("github.com", { idempotencyKey: "order-4711" });
    assert.deepEqual(second.data, first.data);
    assert.equal(await credits(client), 49);
    await assert.rejects(client.brand("figma.com", { idempotencyKey: "order-4711" }), apiError(400, "invalid_request"));
  });

  test("the ledger is iterated over page by page", async () => {
    const { id, secret } = await service.account();
    const client = createClient({ baseUrl: service.url, apiKey: secret });
    for (let payment = 1; payment <= 4; payment++) {
      await service.command("credits", "grant", "--account", id, "--amount", "10", "--payment-id", `${id}-${payment}`);
    }
    const all: LedgerEntry[] = [];
    for await (const entry of client.ledger()) all.push(entry);
    assert(all.length >= 5);
    assert.equal(all.at(-1)?.balance, 90);

    const paged: LedgerEntry[] = [];
    for await (const entry of client.ledger({ limit: 2 })) paged.push(entry);
    assert.deepEqual(paged, all);

    const sizes: number[] = [];
    for await (const page of client.ledgerPages({ type: "CreditsGranted", limit: 3 })) sizes.push(page.entries.length);
    assert.deepEqual(sizes, [3, 2]);
  });

  test("an iteration that ends early fetches no further page", async () => {
    let sent = 0;
    const client = await customer({
      fetch: (request) => {
        sent++;
        return fetch(request);
      },
    });
    for await (const entry of client.ledger({ limit: 1 })) {
      assert.equal(entry.type, "AccountOpened");
      break;
    }
    assert.equal(sent, 1);
  });

  test("the example of the README runs", async () => {
    const { secret } = await service.account();
    const example = fileURLToPath(new URL("../examples/quickstart.mjs", import.meta.url));
    const env = { ...process.env, LETTERHEAD_URL: service.url, LETTERHEAD_KEY: secret };
    const { stdout } = await promisify(execFile)(process.execPath, [example], { env });
    const lines = stdout.trimEnd().split("\n");
    assert.match(lines[0] ?? "", /^GitHub: #[0-9a-f]{6}/);
    assert.deepEqual(lines.slice(1, 3), ["49 credits are left", "the look-up cost 1 credit"]);
    assert.match(lines[3] ?? "", /^20.*Z github\.com -1$/);
    assert.deepEqual(lines.slice(4), [`${service.url}/logo/github.com?size=64&theme=dark`]);
  });
});

/** Returns a check that an error is an answer with that status and code. */
function apiError(status: number, code: ErrorCode | undefined): (error: unknown) => error is ApiError {
  return (error): error is ApiError => {
    assert(error instanceof ApiError, String(error));
    assert.deepEqual([error.status, error.code], [status, code]);
    assert.match(error.requestId ?? "", /^[0-9a-f-]{36}$/);
    assert(error.message.includes(error.requestId ?? "?"));
    assert.equal(error.attempts, 1);
    return true;
  };
}
