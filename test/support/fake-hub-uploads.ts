// The part of the fake hub that takes uploads: accounts, new repositories and branches, large files, commits.
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type FakeFile, type FakeHub, type FakeRepository, fakeFile, isLarge } from "./fake-hub.js";

type Reply = (status: number, value: unknown, headers?: Record<string, string>) => unknown;

const USER = "tester";
const ORGANIZATION = "org";

/**
 * Answers a request that is about an upload.
 * @returns whether it was one
 */
export function answerUpload(hub: FakeHub, request: IncomingMessage, url: URL, body: Buffer, json: Reply): boolean {
  const role = hub.roleOf(request);
  const answered = (_: unknown) => true;
  if (url.pathname === "/api/whoami-v2") {
    if (role === undefined) return answered(json(401, { error: "Invalid credentials in Authorization header" }));
    const accessToken = { displayName: "test", role, createdAt: "2025-01-01T00:00:00.000Z" };
    const orgs = [{ type: "org", name: ORGANIZATION, roleInOrg: "admin" }];
    return answered(json(200, { type: "user", name: USER, orgs, auth: { type: "access_token", accessToken } }));
  }
  if (request.method !== "POST") return false;
  const path = decodeURIComponent(url.pathname);
  const text = body.toString();
  const read = (): Record<string, unknown> => JSON.parse(text || "{}") as Record<string, unknown>;
  if (path === "/api/validate-yaml") return answered(json(200, { errors: [], warnings: [] }));
  if (path === "/api/complete_multipart") return answered(complete(hub, url, read(), json));
  if (path === "/api/repos/create") return answered(createRepository(hub, role, read(), json));

  const [, apiKind, apiName, verb = "", branch = "main"] =
    /^\/api\/(model|dataset)s\/([^/]+\/[^/]+)\/(branch|preupload|commit)\/(.+)$/.exec(path) ?? [];
  const [, gitKind, gitName, lfs] =
    /^\/(datasets\/)?([^/]+\/[^/]+)\.git\/info\/lfs\/objects\/(batch|verify)$/.exec(path) ?? [];
  const own = apiName ?? gitName;
  if (own === undefined) return false;
  const name = apiKind === "dataset" || gitKind ? `datasets/${own}` : own;
  const repository = hub.repositories.get(name);
  const headers = { "x-error-code": "RepoNotFound", "x-error-message": "Repository not found" };
  if (role === undefined || !repository)
    return answered(json(role ? 404 : 401, { error: "Repository not found" }, headers));
  if (role === "read") {
    return answered(json(403, { error: "Forbidden: you must use a write token to upload to a repository." }));
  }
  if (lfs === "batch")
    return answered(json(200, batch(hub, name, read()), { "content-type": "application/vnd.git-lfs+json" }));
  if (lfs === "verify") return answered(json(hub.objects.has(String(read().oid)) ? 200 : 404, {}));
  if (verb === "branch") {
    if (repository.refs.has(branch)) return answered(json(409, { error: "Reference already exists" }));
    repository.refs.set(branch, repository.refs.get(String(read().startingPoint ?? "main")) ?? "");
    return answered(json(200, {}));
  }
  const head = repository.refs.get(branch);
  const files = head === undefined ? undefined : repository.commits.get(head);
  if (head === undefined || !files) {
    return answered(json(404, { error: `Invalid rev id: ${branch}` }, { "x-error-code": "RevisionNotFound" }));
  }
  if (verb === "preupload") {
    const asked = read().files as { path: string; size: number }[];
    const known = asked.map(({ path: one, size }) => ({
      path: one,
      uploadMode: isLarge(one) || size > 10_000_000 ? "lfs" : "regular",
      shouldIgnore: false,
      oid: files.get(one)?.sha256 ?? files.get(one)?.oid ?? null,
    }));
    return answered(json(200, { files: known }));
  }
  return answered(json(...commit(hub, name, repository, branch, head, text)));
}

function createRepository(
  hub: FakeHub,
  role: string | undefined,
  asked: Record<string, unknown>,
  json: Reply,
): unknown {
  if (role === undefined) return json(401, { error: "Invalid username or password." });
  const namespace = String(asked.organization ?? USER);
  if (role === "read" || ![USER, ORGANIZATION].includes(namespace)) {
    return json(403, { error: `You don't have the rights to create a model under the namespace "${namespace}"` });
  }
  const id = `${namespace}/${asked.name}`;
  const name = asked.type === "dataset" ? `datasets/${id}` : id;
  const url = `${hub.endpoint}/${name}`;
  if (hub.repositories.has(name)) return json(409, { error: "You already created this model repo", url });
  hub.create(name, { gated: false, private: asked.private === true || asked.visibility === "private" });
  const attributes = Buffer.from("*.safetensors filter=lfs diff=lfs merge=lfs -text\n");
  hub.commit(name, "main", new Map([[".gitattributes", fakeFile(".gitattributes", attributes)]]));
  return json(200, { url, name: id, id });
}

/** Where to upload the large files that are not there yet. */
function batch(hub: FakeHub, name: string, { objects }: Record<string, unknown>): unknown {
  const asked = objects as { oid: string; size: number }[];
  return {
    transfer: asked.some(({ size }) => size > hub.partBytes) ? "multipart" : "basic",
    objects: asked.map(({ oid, size }) => {
      if (hub.objects.has(oid)) return { oid, size };
      const verify = { href: `${hub.endpoint}/${name}.git/info/lfs/objects/verify` };
      const at = `${hub.storage}/${oid}`;
      if (size <= hub.partBytes) return { oid, size, actions: { upload: { href: `${at}?signature=abc` }, verify } };
      const parts = Array.from({ length: Math.ceil(size / hub.partBytes) }, (_, i) => [
        String(i + 1).padStart(5, "0"),
        `${at}?part=${i + 1}&signature=abc`,
      ]);
      const header = { chunk_size: String(hub.partBytes), ...Object.fromEntries(parts) };
      return {
        oid,
        size,
        actions: { upload: { href: `${hub.endpoint}/api/complete_multipart?oid=${oid}`, header }, verify },
      };
    }),
  };
}

/** Joins the parts of an upload. */
function complete(hub: FakeHub, url: URL, asked: Record<string, unknown>, json: Reply): unknown {
  const oid = url.searchParams.get("oid") ?? "";
  const parts = asked.parts as { partNumber: number; etag: string }[];
  const contents = parts.map(({ partNumber }) => hub.objects.get(`${oid}/${partNumber}`));
  if (contents.some((content, i) => !content || parts[i]?.etag !== etagOf(content))) {
    return json(400, { error: "a part is missing" });
  }
  const content = Buffer.concat(contents as Buffer[]);
  if (createHash("sha256").update(content).digest("hex") !== oid) return json(400, { error: "the hash is wrong" });
  hub.objects.set(oid, content);
  return json(200, { success: true });
}

const etagOf = (content: Buffer) => `"${createHash("md5").update(content).digest("hex")}"`;

/** Takes the content of a large file, or a part of it, at the storage. */
export async function receiveUpload(
  hub: FakeHub,
  request: IncomingMessage,
  url: URL,
  response: ServerResponse,
): Promise<unknown> {
  if (hub.stuck !== undefined) hub.held++;
  if (hub.stuck === "never reads") return request.pause();
  if (hub.stuck === "never answers") return request.resume();
  const cut = hub.uploadCuts.shift();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
    bytes += (chunk as Buffer).length;
    if (cut !== undefined && bytes >= cut) {
      hub.note("storage", request, 0, bytes);
      return request.socket.destroy();
    }
  }
  hub.note("storage", request, 0, bytes);
  const refused = hub.refusals.findIndex(({ path }) => path?.test(url.search));
  if (refused >= 0) return response.writeHead(hub.refusals.splice(refused, 1)[0]?.status ?? 500).end("refused");
  // S3 refuses a body of unknown length.
  if (request.headers["content-length"] === undefined) return response.writeHead(411).end();
  const content = Buffer.concat(chunks);
  const oid = url.pathname.slice(1);
  const part = url.searchParams.get("part");
  if (part === null && createHash("sha256").update(content).digest("hex") !== oid) return response.writeHead(400).end();
  hub.objects.set(part === null ? oid : `${oid}/${part}`, content);
  return response.writeHead(200, { etag: etagOf(content) }).end();
}

/** The answer to a commit, as NDJSON. */
function commit(
  hub: FakeHub,
  name: string,
  repository: FakeRepository,
  branch: string,
  head: string,
  text: string,
): [number, unknown] {
  const files = new Map<string, FakeFile>(repository.commits.get(head));
  for (const line of text.split("\n").filter((one) => one !== "")) {
    const { key, value } = JSON.parse(line) as { key: string; value: Record<string, string> };
    const path = value.path ?? "";
    if (key === "header" && value.parentCommit && value.parentCommit !== head) {
      return [412, { error: "A commit has happened since. Please refresh and try again." }];
    }
    if (key === "header" && !value.summary) return [400, { error: '"summary" is required' }];
    if (key === "file") files.set(path, fakeFile("small", Buffer.from(value.content ?? "", "base64")));
    if (key === "lfsFile") {
      const content = hub.objects.get(value.oid ?? "");
      if (!content) return [400, { error: `LFS pointer of ${path} points to a file that does not exist` }];
      files.set(path, { ...fakeFile("small", content), sha256: value.oid });
    }
    if (key === "deletedFile") files.delete(path);
  }
  const commitOid = hub.commit(name, branch, files);
  const commitUrl = `${hub.endpoint}/${name}/commit/${commitOid}`;
  return [200, { success: true, commitOid, commitUrl, hookOutput: "" }];
}
