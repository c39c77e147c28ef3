// Every relative link and anchor of every Markdown file of the repository leads somewhere, and the guides follow each other.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: ROOT,
  encoding: "utf8",
});
const PAGES = tracked.split("\n").filter((path) => path !== "" && existsSync(join(ROOT, path)));

/** A page without its code, in which brackets are no links and hashes no headings. */
const prose = (text: string) => text.replace(/^( *)(`{3,}).*\n[\s\S]*?^\1\2 *$/gm, "").replace(/`[^`\n]*`/g, "code");

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(text: string): Set<string> {
  const headings = text.replace(/^( *)(`{3,}).*\n[\s\S]*?^\1\2 *$/gm, "").matchAll(/^#{1,6} +(.*)$/gm);
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ""] of headings) {
    const words = heading.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*~]/g, "");
    const anchor = words
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
      .replaceAll(" ", "-");
    const count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    anchors.add(count === 0 ? anchor : `${anchor}-${count}`);
  }
  for (const [, name = ""] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(name);
  return anchors;
}

const known = new Map<string, Set<string>>();
function anchorsIn(file: string): Set<string> {
  const anchors = known.get(file) ?? anchorsOf(read(file));
  known.set(file, anchors);
  return anchors;
}

/** Links of a page that lead nowhere. */
function dead(page: string, text = read(page)): string[] {
  const links = [...prose(text).matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g)].map(([, link = ""]) => link);
  return links.filter((link) => {
    // A path from the root is of the page that serves the file, as a Space does.
    if (/^(?:[a-z]+:|\/)/.test(link)) return false;
    const [path = "", anchor] = link.split("#");
    const file = path === "" ? page : normalize(join(dirname(page), decodeURI(path)));
    if (!existsSync(join(ROOT, file))) return true;
    return anchor !== undefined && (statSync(join(ROOT, file)).isDirectory() || !anchorsIn(file).has(anchor));
  });
}

describe("links", () => {
  test("anchors are those of GitHub", () => {
    const page = "# A: b `c-d`, e\n## [Link](x.md)\n## Link\n```\n# code\n```\n## Über 1.5 B\n";
    expect([...anchorsOf(page)]).toEqual(["a-b-c-d-e", "link", "link-1", "über-15-b"]);
  });

  test.each(PAGES)("of %s lead to files and headings that exist", (page) => {
    expect(dead(page)).toEqual([]);
  });

  test("that are dead are found", () => {
    const text =
      "[a](none.md) `[b](none.md)` [c](methods.md#swap) [d](methods.md#none) [e](#here)\n```\n[f](g.md)\n```\n";
    expect(dead("docs/fields.md", text)).toEqual(["none.md", "methods.md#none", "#here"]);
  });
});

describe("the sidebar of the site", () => {
  const sidebar = JSON.parse(read("docs/sidebar.json")) as { items: { text: string; link: string }[] }[];
  const [guides = { items: [] }, references = { items: [] }] = sidebar;
  const links = [...guides.items, ...references.items].map(({ link }) => `docs/${link}.md`);

  test("has every page of docs/, and the reference", () => {
    const pages = PAGES.filter((path) => /^docs\/[^/]+\.md$/.test(path) && path !== "docs/README.md");
    expect(links.toSorted()).toEqual([...pages, "docs/api/README.md"].toSorted());
    expect(guides.items.length).toBe(14);
  });

  test.each(guides.items.map((guide, i) => ({ ...guide, next: guides.items[i + 1] })))(
    "$text is a guide that names the next one",
    ({ text, link, next }) => {
      const page = read(`docs/${link}.md`).trimEnd().split("\n");
      expect(page[0]).toBe(`# ${text}`);
      expect(page.at(-1)).toBe(
        next ? `Next: [${next.text}](${next.link}.md).` : "All guides: [Documentation](README.md).",
      );
    },
  );
});
