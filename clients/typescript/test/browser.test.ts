import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { accessSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const root = new URL("../", import.meta.url);
const browser = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]
  .flatMap((name) => (process.env.PATH ?? "").split(":").map((folder) => join(folder, name)))
  .find((path) => {
    try {
      accessSync(path);
      return true;
    } catch {
      return false;
    }
  });
const browserTimeoutMs = 60_000;

const page = (api: string) => `<!doctype html><script type="importmap">
{"imports": {"letterhead-client": "/dist/index.js", "openapi-fetch": "/node_modules/openapi-fetch/dist/index.mjs"}}
</script><script type="module">
import { createClient } from "letterhead-client";
const client = createClient({ baseUrl: "${api}", apiKey: "lh_pk_test" });
const result = await client.search("acme").then((found) => found.data[0].name + " " + found.requestId, String);
await fetch("/result", { method: "POST", body: result });
</script>`;

test("a page repeats a request of another origin", { skip: browser ? false : "no Chromium is installed", timeout: browserTimeoutMs }, async () => {
  const attempts: string[] = [];
  const api = await listen((request, response) => {
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Access-Control-Allow-Headers", "Authorization, *");
    response.setHeader("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    response.setHeader("X-Request-Id", "r2");
    if (request.method === "OPTIONS") {
      return response.writeHead(204).end();
    }
    attempts.push(request.headers.authorization ?? "");
    if (attempts.length === 1) {
      return response.writeHead(503, { "Retry-After": "1" }).end('{"error":{"code":"upstream_failed","message":"later","docs":""}}');
    }
    return response.writeHead(200).end('{"query":"acme","results":[{"name":"Acme"}]}');
  });
  let report: (result: string) => void = () => {};
  const reported = new Promise<string>((resolve) => (report = resolve));
  const site = await listen(async (request, response) => {
    if (request.url === "/result") {
      let body = "";
      for await (const part of request) body += part;
      response.end();
      report(body);
    } else if (request.url === "/") {
      response.setHeader("Content-Type", "text/html").end(page(address(api)));
    } else if (/^\/(dist|node_modules)\/[\w./-]+\.m?js$/.test(request.url ?? "")) {
      response.setHeader("Content-Type", "text/javascript").end(await readFile(new URL(`.${request.url}`, root)));
    } else {
      response.writeHead(404).end();
    }
  });
  const profile = await mkdtemp(join(tmpdir(), "letterhead-browser-"));
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"];
  const quiet = ["--disable-background-networking", "--disable-component-update", `--user-data-dir=${profile}`, "--remote-debugging-port=0"];
  const child = spawn(browser ?? "", [...flags, ...quiet, address(site)], { stdio: "ignore" });
  const exited = once(child, "exit").then(() => "the browser ended");
  try {
    assert.equal(await Promise.race([reported, exited]), "Acme r2");
    assert.deepEqual(attempts, ["Bearer lh_pk_test", "Bearer lh_pk_test"]);
  } finally {
    child.kill();
    await exited;
    for (const server of [api, site]) {
      server.closeAllConnections();
      server.close();
    }
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
});

async function listen(handler: RequestListener): Promise<Server> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function address(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
