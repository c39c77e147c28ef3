import { HubError } from "../../kit/index.js";
import type { HubFile } from "./ranges.js";

/** The Hub recommends at most 100,000 files; its pages have up to 1,000. */
const MAX_FILES = 100_000;
const MAX_PAGES = 200;

export interface Listed {
  readonly hubUrl: string;
  readonly fetch: typeof fetch;
  readonly repo: { readonly type: "model" | "dataset"; readonly name: string };
  readonly revision: string;
}

/**
 * Lists the files at any depth by path. What the hub says of them is not checked.
 * @throws HubError if the listing does not end
 */
export async function listRepository(listed: Listed): Promise<Map<string, HubFile>> {
  const { listFiles } = await import("@huggingface/hub");
  const { name } = listed.repo;
  const pages = new Set<string>();
  const tooMany = () =>
    new HubError(
      `${name} has more than ${MAX_FILES.toLocaleString("en")} files, or its listing has more than ${MAX_PAGES} pages, which is too many. Check the name, or try another HF_ENDPOINT.`,
    );
  const fetchPage: typeof fetch = (input, init) => {
    const page = String(input);
    if (pages.has(page)) {
      throw new HubError(`The listing of ${name} repeats a page without end. Try again, or another HF_ENDPOINT.`);
    }
    if (pages.size >= MAX_PAGES) throw tooMany();
    pages.add(page);
    if (!URL.canParse(page) || new URL(page).origin !== new URL(listed.hubUrl).origin) {
      throw new HubError(
        `The listing of ${name} continues elsewhere than on the hub. Try again, or another HF_ENDPOINT.`,
      );
    }
    return listed.fetch(input, init);
  };
  const files = new Map<string, HubFile>();
  for await (const entry of listFiles({ ...listed, fetch: fetchPage, recursive: true })) {
    if (entry.type !== "file") continue;
    const { path } = entry;
    const [size, hash] = [entry.lfs?.size ?? entry.size, String(entry.lfs?.oid ?? entry.oid ?? "")];
    files.set(path, { path, size, hash });
    if (files.size > MAX_FILES) throw tooMany();
  }
  return files;
}
