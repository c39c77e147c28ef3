// What is still to be filled in before the package is published, and what is written from it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { openPoints } from "../.ci/release-check.js";
import { renewedCitation } from "../docs/generate.js";
import manifest from "../package.json" with { type: "json" };

const read = (path: string) => readFileSync(join(import.meta.dirname, "..", path), "utf8");

const ready = {
  version: "1.2.3",
  homepage: "https://github.com/someone/layergraft#readme",
  bugs: "https://github.com/someone/layergraft/issues",
  repository: { url: "git+https://github.com/someone/layergraft.git" },
};
const CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-31\n\n- It works.\n";

test("a release needs addresses, and an entry of the changelog with its date", () => {
  expect(openPoints(ready, CHANGELOG)).toEqual([]);
  expect(openPoints(ready, CHANGELOG.replace("## Unreleased\n\n", ""))).toEqual([]);
  const placeholder = { ...ready, bugs: "https://github.com/OWNER/layergraft/issues" };
  expect(openPoints(placeholder, CHANGELOG)).toEqual([expect.stringContaining("Replace OWNER")]);
  expect(openPoints({ ...ready, version: "1.2.4" }, CHANGELOG)).toEqual([expect.stringContaining("## 1.2.4 - DATE")]);
  const unreleased = CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- More.\n");
  expect(openPoints(ready, unreleased)).toEqual([expect.stringContaining("notes under Unreleased")]);
});

test("the addresses of package.json name one repository, which CITATION.cff has, too (npm run docs)", () => {
  const [, address] = /^git\+(https:\/\/github\.com\/[\w-]+\/layergraft)\.git$/.exec(manifest.repository.url) ?? [];
  expect(manifest.homepage).toBe(`${address}#readme`);
  expect(manifest.bugs).toBe(`${address}/issues`);
  const citation = read("CITATION.cff");
  expect(citation).toBe(renewedCitation(citation));
  const { version, "repository-code": code } = parse(citation);
  expect([version, code]).toEqual([manifest.version, address]);
});

test("only the owner's name is still to be filled in", () => {
  const open = openPoints(manifest, read("CHANGELOG.md")).filter((point) => !point.includes("notes under Unreleased"));
  expect(open.filter((point) => !point.startsWith("Replace OWNER"))).toEqual([]);
});
