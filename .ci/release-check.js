// What must be filled in before the package is published: run by prepublishOnly, and by hand with npm run release-check.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** The name that stands for the owner of the repository. */
const PLACEHOLDER = "OWNER";

/**
 * What is still to be done, in sentences.
 * @param {{ version: string, homepage: string, bugs: string, repository: { url: string } }} manifest
 * @param {string} changelog
 */
export function openPoints({ version, homepage, bugs, repository }, changelog) {
  const addresses = [homepage, bugs, repository.url];
  return [
    ...(addresses.some((address) => address.includes(`/${PLACEHOLDER}/`))
      ? [
          `Replace ${PLACEHOLDER} by the owner of the repository in homepage, bugs and repository of package.json, and run npm run docs.`,
        ]
      : []),
    ...(new RegExp(`^## ${version.replaceAll(".", "\\.")} - \\d{4}-\\d{2}-\\d{2}$`, "m").test(changelog)
      ? []
      : [`Add the entry "## ${version} - DATE" to CHANGELOG.md, or set the version in package.json.`]),
    ...(/^## Unreleased\s+(?!## |\s)/m.test(changelog)
      ? [`Move the notes under Unreleased to ${version} in CHANGELOG.md.`]
      : []),
  ];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const points = openPoints(JSON.parse(readFileSync("package.json", "utf8")), readFileSync("CHANGELOG.md", "utf8"));
  for (const point of points) process.stderr.write(`Not ready to publish. ${point}\n`);
  if (points.length > 0) process.exitCode = 1;
}
