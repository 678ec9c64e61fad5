import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { type Service, serve } from "./service.js";

let service: Service;
before(async () => {
  service = await serve();
});
after(() => service.stop());

test("the samples of the API reference compile", async () => {
  const page = async (path: string): Promise<string> => (await fetch(`${service.url}${path}`)).text();
  const groups = [...(await page("/docs")).matchAll(/<li><a href="(docs\/[a-z-]+)">/g)].map((match) => match[1]);
  assert(groups.length > 5, `only ${groups.length} pages`);
  let code = 'import { createClient } from "letterhead-client";\nconst letterhead = createClient({ baseUrl: "" });\n';
  let samples = 0;
  for (const group of groups) {
    for (const [, sample = ""] of (await page(`/${group}`)).matchAll(/in TypeScript"><code>([^<]*)<\/code>/g)) {
      const text = sample.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
      code += `export async function sample${++samples}() {\n${text}\nreturn { data, response };\n}\n`;
    }
  }
  assert(samples > 30, `only ${samples} samples`);
  const file = fileURLToPath(new URL("../build/samples.ts", import.meta.url));
  await writeFile(file, code);
  const options: ts.CompilerOptions = {
    noEmit: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: [],
  };
  const problems = ts.getPreEmitDiagnostics(ts.createProgram([file], options));
  assert.deepEqual(problems.map((problem) => ts.flattenDiagnosticMessageText(problem.messageText, "\n")), []);
});
