// The built binary, serving a temporary folder.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const startTimeoutMs = 120_000;
const pollMs = 200;
const stopTimeoutMs = 30_000;

export interface Service {
  url: string;
  /** Runs a command of the binary on the folder, and returns what it prints as JSON. */
  command(...args: string[]): Promise<unknown>;
  /** Creates an account with 50 credits, and returns its id and keys. */
  account(): Promise<{ id: string; secret: string; publishable: string }>;
  stop(): Promise<void>;
}

export async function serve(): Promise<Service> {
  const binary = process.env.LETTERHEAD_BINARY;
  assert(binary, "LETTERHEAD_BINARY must name the built binary; make lint-client sets it");
  const data = await mkdtemp(join(tmpdir(), "letterhead-client-"));
  const listen = `127.0.0.1:${await freePort()}`;
  const env = { ...process.env, LETTERHEAD_DATA: join(data, "data"), LETTERHEAD_LISTEN: listen, LETTERHEAD_REFRESH: "off" };
  const child = spawn(binary, ["serve"], { env, stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  let log = "";
  child.stderr.on("data", (text: Buffer) => (log += text));

  const command = async (...args: string[]): Promise<unknown> =>
    JSON.parse((await promisify(execFile)(binary, [...args, "--json"], { env })).stdout);
  const service: Service = {
    url: `http://${listen}`,
    command,
    async account() {
      const created = (await command("account", "create", "--name", "Test", "--plan", "growth")) as {
        account: { id: string };
        keys: { kind: string; key: string }[];
      };
      const key = (kind: string) => created.keys.find((k) => k.kind === kind)?.key ?? assert.fail(`no ${kind} key`);
      return { id: created.account.id, secret: key("secret"), publishable: key("publishable") };
    },
    async stop() {
      child.kill("SIGTERM");
      const kill = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
      await exited;
      clearTimeout(kill);
      await rm(data, { recursive: true });
    },
  };
  for (let waited = 0; waited < startTimeoutMs && child.exitCode === null; waited += pollMs) {
    const ready = await fetch(`${service.url}/readyz`).catch(() => undefined);
    await ready?.arrayBuffer();
    if (ready?.ok) {
      return service;
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  await service.stop();
  assert.fail(`the service did not start:\n${log}`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  assert(address && typeof address === "object");
  return address.port;
}

/** Reads a file of the package. */
export function file(name: string): Promise<string> {
  return readFile(new URL(`../${name}`, import.meta.url), "utf8");
}
