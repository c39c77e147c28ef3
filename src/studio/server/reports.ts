// Written reports, each at an address that cannot be guessed. A report is a page by whoever wrote the folder, so it gets an
// origin of its own, without storage and without a connection to anything.
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { readBounded } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";

export const REPORTS = "/report/";
const MAX_REPORTS = 100;
const MAX_BYTES = 100_000_000;

const POLICY =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export class Reports {
  readonly #files = new Map<string, { readonly file: string; readonly sandbox: string }>();

  /**
   * The address of a report, the same each time.
   * @param may "download" for a page that the studio wrote itself just now: it may offer files
   */
  urlOf(file: string, may?: "download"): string {
    const known = [...this.#files].find(([, one]) => one.file === file)?.[0];
    if (known !== undefined) return known;
    const url = `${REPORTS}${randomBytes(24).toString("base64url")}`;
    this.#files.set(url, { file, sandbox: `sandbox allow-scripts${may === "download" ? " allow-downloads" : ""}` });
    const [oldest = ""] = this.#files.keys();
    if (this.#files.size > MAX_REPORTS) this.#files.delete(oldest);
    return url;
  }

  /** @throws LayergraftError code `not-found` */
  async serve(pathname: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const known = this.#files.get(pathname);
    if (known === undefined || request.method !== "GET") {
      throw new LayergraftError("not-found", "There is no such report. Open it from the studio.");
    }
    const { file, sandbox } = known;
    const tooLarge = () => new LayergraftError("usage", `${file} is too large for the studio. Open it as a file.`);
    const page = await readBounded(file, MAX_BYTES, tooLarge);
    response.setHeader("content-security-policy", `${sandbox}; ${POLICY}`);
    response.setHeader("cache-control", "no-store");
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end(page);
  }
}
