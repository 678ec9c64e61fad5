import createFetchClient, { type Client } from "openapi-fetch";
import { ApiError, numberIn } from "./errors.js";
import type { components, operations, paths } from "./schema.js";
import { send } from "./retry.js";

type Schemas = components["schemas"];

export type Account = Schemas["Account"];
export type BatchItem = Schemas["BatchItem"];
export type Brand = Schemas["Brand"];
export type BrandSearchResult = Schemas["BrandSearchResult"];
export type CheckoutSession = Schemas["CheckoutSession"];
export type LedgerEntry = Schemas["LedgerEntry"];
export type LedgerOfRequest = Schemas["LedgerOfRequest"];
export type LedgerPage = Schemas["Ledger"];
export type Statement = Schemas["Statement"];

/** Parameters of the ledger, but for `cursor`, which the iteration sets. `limit` is the size of a page. */
export type LedgerQuery = Omit<NonNullable<operations["listLedger"]["parameters"]["query"]>, "cursor">;

/** Parameters of a logo's URL, and a publishable key. */
export type LogoQuery = NonNullable<operations["getLogo"]["parameters"]["query"]> & { key?: string };

/** What is bought: a pack of credits by its name, or a pack or a plan by the id of its price. */
export type Purchase = { pack: string } | { price: string };

/** Options of one call. */
export interface CallOptions {
  /** Ends the call, its waits and its repeats; the call then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Options of a look-up or a batch. */
export interface LookupOptions extends CallOptions {
  /** Makes the call safe to repeat across processes: the same key within 24 hours is charged once. Default: a random one. */
  idempotencyKey?: string;
}

/** An answer and what its headers say. */
export interface Answer<T> {
  data: T;
  /** Id of the request; quote it in questions about the request. `explain` says what it cost. */
  requestId: string | undefined;
  /** Credits left after the request, where the answer has them. */
  creditsRemaining: number | undefined;
  /** Identifies the content of a brand, for `brandIfChanged`. */
  etag: string | undefined;
  /** The requests of the account's minute; `reset` is its end in Unix seconds. */
  rateLimit: { limit: number; remaining: number; reset: number } | undefined;
}

export interface ClientOptions {
  /** URL of the service, such as https://brands.example.com. */
  baseUrl: string;
  /** A secret key (lh_sk_…), only on a server, or a publishable key (lh_pk_…). Logos and the checkpoint need none. */
  apiKey?: string;
  /** How often a request that may be repeated is sent again: 0 to 10. Default: defaultMaxRetries. */
  maxRetries?: number;
  /** Milliseconds that one attempt may take. Default: defaultTimeoutMs. */
  timeoutMs?: number;
  /** The longest wait before a repeat, in milliseconds. If the service demands more, the call fails at once. Default: defaultMaxWaitMs. */
  maxWaitMs?: number;
  /** Replaces the global fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

export const defaultMaxRetries = 2;
/** A batch may take 34 seconds: it starts look-ups for 25, and one takes up to 8.5. */
export const defaultTimeoutMs = 40_000;
/** The limit of requests is that of a minute. */
export const defaultMaxWaitMs = 60_000;

const limits = { maxRetries: 10, timeoutMs: 600_000, maxWaitMs: 3_600_000 };

/** A client of one service and account. Create it with createClient. */
export interface Letterhead {
  /**
   * Looks a brand up by a domain, a URL, an e-mail address or a brand id. It costs one credit if a brand with a logo is
   * found. `refresh` crawls the site now (paid plans).
   */
  brand(identifier: string, options?: LookupOptions & { refresh?: boolean }): Promise<Answer<Brand>>;
  /** Looks a brand up again. `data` is undefined, and the call free, if the brand is as in the answer with that etag. */
  brandIfChanged(identifier: string, etag: string, options?: LookupOptions): Promise<Answer<Brand | undefined>>;
  /** Reports whether the index has a brand. It is free and crawls nothing. */
  hasBrand(identifier: string, options?: CallOptions): Promise<boolean>;
  /**
   * Looks up to 100 brands up. `data` has an item for each identifier, in their order, with a `brand` or an `error`. Each
   * brand with a logo costs one credit.
   */
  brands(identifiers: string[], options?: LookupOptions): Promise<Answer<BatchItem[]>>;
  /** Searches brands by name or domain, best match first. It is free. */
  search(query: string, options?: CallOptions & { limit?: number }): Promise<Answer<BrandSearchResult[]>>;
  /** Shows plan, credits, usage and limits of the key's account. */
  account(options?: CallOptions): Promise<Answer<Account>>;
  /** Fetches the statement of a month such as 2026-11. */
  statement(month: string, options?: CallOptions & { asOf?: string }): Promise<Answer<Statement>>;
  /** Iterates over the events of the account, oldest first, and fetches a page when it is needed. */
  ledger(query?: LedgerQuery, options?: CallOptions): AsyncGenerator<LedgerEntry, void, undefined>;
  /** Iterates over the pages of the same list. Those with `as_of` have the balance at that time. */
  ledgerPages(query?: LedgerQuery, options?: CallOptions): AsyncGenerator<LedgerPage, void, undefined>;
  /** Explains what a request cost, by the `requestId` of its answer. */
  explain(requestId: string, options?: CallOptions & { asOf?: string }): Promise<Answer<LedgerOfRequest>>;
  /** Creates a page to pay on. It is sent once: a repeat could create a second page. */
  checkout(purchase: Purchase, options?: CallOptions): Promise<Answer<CheckoutSession>>;
  /** Returns the URL of a brand's logo, for the src of an image. It sends nothing. */
  logoUrl(domain: string, query?: LogoQuery): string;
  /**
   * Every path of the API, typed by its description, as an openapi-fetch client. It has the same timeouts, repeats and
   * idempotency keys, and throws instead of returning an error; only a 304 is returned.
   */
  http: Client<paths>;
}

type Methods = "get" | "head" | "post";
type HeadersOf<O> = O extends { parameters: { header?: infer H } } ? NonNullable<H> : never;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;
type Has<Fields, Name> = [Fields] extends [never] ? false : Name extends keyof Fields ? true : false;

/** The operations that take an idempotency key, such as "GET /v1/brands/{identifier}". */
type KeyedOperation = {
  [P in keyof paths]: {
    [M in Methods]: Has<HeadersOf<paths[P][M]>, "Idempotency-Key"> extends true ? `${Uppercase<M>} ${P}` : never;
  }[Methods];
}[keyof paths];

/** The paths whose answers have pages. A test fails to compile when the client iterates over too few. */
export type PagedPath = {
  [P in keyof paths]: Has<QueryOf<paths[P]["get"]>, "cursor"> extends true ? P : never;
}[keyof paths];

// It does not compile if it differs from the description.
const keyed: Record<KeyedOperation, true> = {
  "GET /v1/brands/{identifier}": true,
  "POST /v1/brands/batch": true,
  "GET /v2/brands/{identifier}": true,
  "GET /v2/brands/id/{id}": true,
  "GET /v2/brands/domain/{domain}": true,
  "POST /v2/brands/batch": true,
};

/** Creates a client. It throws a TypeError if an option is not valid. */
export function createClient(options: ClientOptions): Letterhead {
  const base = baseOf(options.baseUrl);
  const sending = {
    fetch: options.fetch ?? ((request: Request) => fetch(request)),
    maxRetries: within("maxRetries", options.maxRetries ?? defaultMaxRetries, 0),
    timeoutMs: within("timeoutMs", options.timeoutMs ?? defaultTimeoutMs, 1),
    maxWaitMs: within("maxWaitMs", options.maxWaitMs ?? defaultMaxWaitMs, 0),
  };
  const withKeys = new WeakSet<Request>(); // requests of keyed operations
  const http = createFetchClient<paths>({
    baseUrl: base,
    headers: authorization(options.apiKey),
    fetch: (request) => send(request, withKeys.has(request), sending),
  });
  http.use({
    // A call has one key, and all its attempts send it.
    onRequest({ request, schemaPath }) {
      if (`${request.method} ${schemaPath}` in keyed) {
        withKeys.add(request);
        if (!request.headers.has("Idempotency-Key")) {
          request.headers.set("Idempotency-Key", randomKey());
        }
      }
    },
  });

  async function* ledgerPages(query: LedgerQuery = {}, options: CallOptions = {}) {
    for (let cursor: string | undefined; ; ) {
      const page: LedgerPage = (
        await answer(http.GET("/v1/ledger", { params: { query: { ...query, ...given("cursor", cursor) } }, ...signalOf(options) }))
      ).data;
      yield page;
      if (page.next_cursor === undefined) {
        return;
      }
      if (page.next_cursor === cursor) {
        throw new Error(`the ledger's next_cursor is ${cursor} again; report this to the operator of the service`);
      }
      cursor = page.next_cursor;
    }
  }

  return {
    http,
    brand(identifier, options = {}) {
      const query = given("refresh", options.refresh);
      return answer(
        http.GET("/v1/brands/{identifier}", {
          params: { path: { identifier }, query, header: given("Idempotency-Key", options.idempotencyKey) },
          ...signalOf(options),
        }),
      );
    },
    async brandIfChanged(identifier, etag, options = {}) {
      const header = { "If-None-Match": etag, ...given("Idempotency-Key", options.idempotencyKey) };
      const { data, response } = await http.GET("/v1/brands/{identifier}", {
        params: { path: { identifier }, header },
        ...signalOf(options),
      });
      return { data, ...metadata(response) };
    },
    async hasBrand(identifier, options = {}) {
      try {
        await http.HEAD("/v1/brands/{identifier}", { params: { path: { identifier } }, ...signalOf(options) });
        return true;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) {
          return false;
        }
        throw error;
      }
    },
    async brands(identifiers, options = {}) {
      const { data, ...rest } = await answer(
        http.POST("/v1/brands/batch", {
          params: { header: given("Idempotency-Key", options.idempotencyKey) },
          body: { identifiers },
          ...signalOf(options),
        }),
      );
      return { data: data.results, ...rest };
    },
    async search(q, options = {}) {
      const query = { q, ...given("limit", options.limit) };
      const { data, ...rest } = await answer(http.GET("/v1/search", { params: { query }, ...signalOf(options) }));
      return { data: data.results, ...rest };
    },
    account(options = {}) {
      return answer(http.GET("/v1/me", signalOf(options)));
    },
    async statement(month, options = {}) {
      const query = { format: "json" as const, ...given("as_of", options.asOf) };
      const found = await answer(http.GET("/v1/statements/{month}", { params: { path: { month }, query }, ...signalOf(options) }));
      return { ...found, data: found.data as Statement }; // the description also has the other formats
    },
    ledgerPages,
    async *ledger(query, options) {
      for await (const page of ledgerPages(query, options)) {
        yield* page.entries;
      }
    },
    explain(requestId, options = {}) {
      const query = given("as_of", options.asOf);
      return answer(
        http.GET("/v1/ledger/{request_id}", { params: { path: { request_id: requestId }, query }, ...signalOf(options) }),
      );
    },
    checkout(purchase, options = {}) {
      return answer(http.POST("/v1/billing/checkout", { body: purchase, ...signalOf(options) }));
    },
    logoUrl(domain, query = {}) {
      const url = new URL(`${base}/logo/${encodeURIComponent(domain)}`);
      for (const [name, value] of Object.entries(query)) {
        if (value !== undefined) {
          url.searchParams.set(name, String(value));
        }
      }
      return url.href;
    },
  };
}

/** Returns the data of an answer. `send` has thrown for every status without data, except 304. */
async function answer<T>(call: Promise<{ data?: T; response: Response }>): Promise<Answer<T>> {
  const { data, response } = await call;
  return { data: data as T, ...metadata(response) };
}

function metadata({ headers }: Response): Omit<Answer<unknown>, "data"> {
  const limit = numberIn(headers, "X-RateLimit-Limit");
  const remaining = numberIn(headers, "X-RateLimit-Remaining");
  const reset = numberIn(headers, "X-RateLimit-Reset");
  return {
    requestId: headers.get("X-Request-Id") ?? undefined,
    creditsRemaining: numberIn(headers, "X-Credits-Remaining"),
    etag: headers.get("ETag") ?? undefined,
    rateLimit: limit === undefined || remaining === undefined || reset === undefined ? undefined : { limit, remaining, reset },
  };
}

/** Returns an object with a field, or without it if it has no value. */
function given<N extends string, V>(name: N, value: V | undefined): { [K in N]?: V } {
  return (value === undefined ? {} : { [name]: value }) as { [K in N]?: V };
}

function signalOf(options: CallOptions): { signal?: AbortSignal } {
  return given("signal", options.signal);
}

function baseOf(baseUrl: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol) || url.search || url.hash || url.username || url.password) {
    throw new TypeError("baseUrl must be an http or https URL such as https://brands.example.com, without a query or a user");
  }
  return url.href.replace(/\/+$/, "");
}

/** The error does not repeat the key, because errors are logged. */
function authorization(apiKey: string | undefined): { Authorization?: string } {
  if (apiKey !== undefined && !/^lh_[a-z]+_[!-~]+$/.test(apiKey)) {
    throw new TypeError("apiKey must be a key of the service: lh_sk_… or lh_pk_…, without spaces or line breaks");
  }
  return apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
}

function within(name: keyof typeof limits, value: number, least: number): number {
  if (!Number.isInteger(value) || value < least || value > limits[name]) {
    throw new TypeError(`${name} must be a whole number from ${least} to ${limits[name]}`);
  }
  return value;
}

/** crypto.randomUUID exists only in pages that were loaded over https. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
