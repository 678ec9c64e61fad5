import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import type { Letterhead, PagedPath } from "letterhead-client";
import { file } from "./service.js";

// It does not compile if the description has a path with pages that the client does not iterate over.
const paged: Record<PagedPath, keyof Letterhead> = { "/v1/ledger": "ledger" };

test("paths with pages have an iterator", () => {
  assert.deepEqual(Object.values(paged), ["ledger"]);
});

test("the types that the package exports have no any", async () => {
  for (const name of await readdir(new URL("../dist/", import.meta.url))) {
    if (!name.endsWith(".d.ts")) continue;
    const code = (await file(`dist/${name}`)).replace(/\/\*[\s\S]*?\*\//g, "");
    assert.doesNotMatch(code, /\bany\b/, name);
  }
});

test("the README has the example that the tests run", async () => {
  assert((await file("README.md")).includes(await file("examples/quickstart.mjs")));
});

test("versions of dependencies are exact", async () => {
  const { dependencies, devDependencies } = JSON.parse(await file("package.json")) as Record<string, Record<string, string>>;
  assert.deepEqual(Object.keys(dependencies ?? {}), ["openapi-fetch"]);
  for (const version of Object.values({ ...dependencies, ...devDependencies })) {
    assert.match(version, /^\d+\.\d+\.\d+$/);
  }
});
