// A hub on loopback that serves folders as models, with large files on a second port, at a limited rate. Prints its address;
// GET /sent answers with the bytes sent since the last time.
import { createHash } from "node:crypto";
import { createReadStream, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const { values, positionals: folders } = parseArgs({
  allowPositionals: true,
  options: { rate: { type: "string", default: "Infinity" } },
});
const bytesPerMs = Number(values.rate) / 1000;

/** @param {string} file @param {string} algorithm @param {string} head */
async function digest(file, algorithm, head = "") {
  const hash = createHash(algorithm).update(head);
  for await (const chunk of createReadStream(file, { highWaterMark: 2 ** 22 })) hash.update(chunk);
  return hash.digest("hex");
}

/** @type {Map<string, { commit: string, files: Map<string, { path: string, file: string, size: number, hash: string, isLarge: boolean }> }>} */
const models = new Map();
for (const folder of folders) {
  const files = new Map();
  for (const path of readdirSync(folder)) {
    const [file, isLarge] = [join(folder, path), path.endsWith(".safetensors")];
    const { size } = statSync(file);
    const hash = isLarge ? await digest(file, "sha256") : await digest(file, "sha1", `blob ${size}\0`);
    files.set(path, { path, file, size, hash, isLarge });
  }
  const commit = createHash("sha1")
    .update([...files.values()].map(({ hash }) => hash).join())
    .digest("hex");
  models.set(`org/${folder.split("/").at(-1)}`, { commit, files });
}

let sent = 0;
// When the line is free again, in milliseconds.
let free = 0;

/** @param {import("node:http").IncomingMessage} request @param {import("node:http").ServerResponse} response @param {{ file: string, size: number }} content */
async function send(request, response, { file, size }) {
  const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
  const [start, end] = [Number(from), to === "" ? size - 1 : Number(to)];
  const isRange = request.headers.range !== undefined;
  response.writeHead(isRange ? 206 : 200, {
    "content-length": end + 1 - start,
    ...(isRange ? { "content-range": `bytes ${start}-${end}/${size}` } : {}),
  });
  const content = createReadStream(file, { start, end, highWaterMark: 2 ** 18 });
  // A reader that leaves ends its answer.
  await pipeline(content, paced, response).catch(() => undefined);
}

/** @param {AsyncIterable<Buffer>} content */
async function* paced(content) {
  for await (const chunk of content) {
    free = Math.max(free, performance.now()) + chunk.length / bytesPerMs;
    const pause = free - performance.now();
    if (pause > 1) await sleep(pause);
    sent += chunk.length;
    yield chunk;
  }
}

/** @param {(request: import("node:http").IncomingMessage, response: import("node:http").ServerResponse) => unknown} answer */
async function listen(answer) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  return `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`;
}

const storage = await listen((request, response) => {
  const [, organization, name, path = ""] = (request.url ?? "").split("/");
  const file = models.get(`${organization}/${name}`)?.files.get(path);
  return file ? send(request, response, file) : response.writeHead(404).end();
});
const hub = await listen((request, response) => {
  const json = (/** @type {unknown} */ value) => {
    const text = JSON.stringify(value);
    sent += text.length;
    response.writeHead(200, { "content-type": "application/json" }).end(text);
  };
  if (request.url === "/sent") {
    const total = sent;
    sent = 0;
    return response.end(String(total));
  }
  const [, api, name = "", verb, path = ""] =
    /^\/(api\/models\/)?([^/]+\/[^/]+)\/(revision|tree|resolve)\/(?:\w+\/)?([^?]*)/.exec(request.url ?? "") ?? [];
  const model = models.get(name);
  if (!model) return response.writeHead(404).end();
  if (verb === "revision") return json({ _id: "1", id: name, sha: model.commit, lastModified: "2025-01-01T00:00:00Z" });
  if (api && verb === "tree") {
    return json(
      [...model.files.values()].map(({ path, size, hash, isLarge }) => ({
        ...{ type: "file", path, size, oid: isLarge ? "0".repeat(40) : hash },
        ...(isLarge ? { lfs: { oid: hash, size, pointerSize: 130 } } : {}),
      })),
    );
  }
  const file = model.files.get(path);
  if (!file) return response.writeHead(404).end();
  if (!file.isLarge) return send(request, response, file);
  const headers = { "x-linked-size": String(file.size), "x-linked-etag": `"${file.hash}"` };
  return response.writeHead(302, { location: `${storage}/${name}/${path}`, ...headers }).end();
});
console.log(hub);
