// The documentation site: the Markdown of the repository, where it is, as the pages of one site.
import { copyFileSync, existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** @param {string} file */
const readJson = (file) => JSON.parse(readFileSync(join(ROOT, file), "utf8"));

const { description, repository } = readJson("package.json");
const source = repository.url.replace(/^git\+|\.git$/g, "");
/** The path below which the site is published: "/" on a host of its own, "/layergraft/" on a project page. */
const base = `/${process.env.SITE_BASE ?? ""}/`.replace(/\/+/g, "/");
/** Scheme and host, which most programs that show links need before the path of a picture. */
const origin = process.env.SITE_ORIGIN ?? "";

const PAGES = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
/** Folders of pages: the Markdown files right inside. */
const FOLDERS = ["docs", "docs/api", "docs/decisions"];
/** @param {string} file from the root of the repository */
const isPage = (file) => PAGES.includes(file) || (file.endsWith(".md") && FOLDERS.includes(dirname(file)));
/** A README is the index of its folder. @param {string} file */
const indexed = (file) => file.replace(/(^|\/)README\.md$/, "$1index.md");

/**
 * Where a link leads on the site: pages keep their relative links, and other files are shown in the repository.
 * @param {string} href as it is written, relative to the file
 * @param {string} file from the root of the repository
 */
function resolveLink(href, file) {
  if (/^([a-z]+:|#|\/)/.test(href)) return href;
  const [path = "", hash = ""] = href.split(/(?=#)/);
  const target = relative(ROOT, join(ROOT, dirname(file), path)).replaceAll("\\", "/");
  if (!existsSync(join(ROOT, target))) throw new Error(`${file} links to ${href}, which does not exist`);
  if (isPage(target)) return `${indexed(path)}${hash}`;
  return `${source}/${statSync(join(ROOT, target)).isDirectory() ? "tree" : "blob"}/main/${target}${hash}`;
}

/** Ids of headings as GitHub makes them, so that a link with one works in both places. @param {string} heading */
const slugify = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");

/** The README's title and first paragraph head the home page, so its text begins after them. */
const readme = readFileSync(join(ROOT, "README.md"), "utf8");
const [, title = "", opening = ""] = /^# (.*)\n\n([\s\S]*?)\n\n/.exec(readme) ?? [];
/** What the demo prints first: the score beside the best alternative. */
const [result] = /^The layer swap solves [\s\S]*?\)\.(?= )/m.exec(readme) ?? [];
if (result === undefined) throw new Error("README.md has no result of the demo for the home page");
const tagline = opening.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("\n", " ");

/** @param {import("vitepress").MarkdownRenderer} md */
function configureMarkdown(md) {
  md.core.ruler.push("repository-links", ({ tokens, env }) => {
    const file = relative(ROOT, env.realPath ?? env.path).replaceAll("\\", "/");
    if (file === "README.md") tokens.splice(0, tokens.findIndex(({ type }) => type === "paragraph_close") + 1);
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type === "link_open") token.attrSet("href", resolveLink(token.attrGet("href") ?? "", file));
    }
  });
  // Braces in text are not expressions of Vue.
  const render = md.render.bind(md);
  md.render = (text, env) => render(text, env).replaceAll("{{", "&#123;&#123;");
}

/** @type {{ text: string, items: { text: string, link: string }[] }[]} */
const groups = readJson("docs/sidebar.json");
const sidebar = groups.map(({ text, items }) => ({
  text,
  items: items.map((item) => ({
    text: item.text,
    link: `/docs/${indexed(`${item.link}.md`).replace(/(index)?\.md$/, "")}`,
  })),
}));

/** @type {import("vitepress").Plugin} */
const repositoryPages = {
  name: "repository-pages",
  enforce: "pre",
  // Pages are outside this package, and import Vue of it.
  resolveId(id, _importer, { ssr }) {
    if (!/^vue(\/|$)/.test(id)) return undefined;
    return ssr ? { id, external: true } : this.resolve(id, import.meta.filename, { skipSelf: true });
  },
  // Dark colours follow the reader's switch instead of the system alone.
  transform: (code, id) =>
    id.includes("assets/tokens.css")
      ? code.replace(/@media \(prefers-color-scheme: dark\) \{\s*:root \{([^}]*)\}\s*\}/, ".dark {$1}")
      : undefined,
};

export default defineConfig({
  srcDir: ROOT,
  srcExclude: [
    "{src,test,bench,examples,assets,dist.*,example,demo-output,real-model}/**",
    "docs/{site,reference}/**",
    "CODE_OF_CONDUCT.md",
  ],
  outDir: "dist",
  cacheDir: ".cache",
  base,
  rewrites: indexed,
  lang: "en",
  title: "layergraft",
  description,
  head: [
    ["link", { rel: "icon", href: `${base}icon.svg`, type: "image/svg+xml" }],
    // What a link to the site is shown with: the picture of the example's merge.
    ["meta", { property: "og:image", content: `${origin}${base}merge.png` }],
    ["meta", { property: "og:title", content: title }],
    ["meta", { property: "og:description", content: description }],
    ["meta", { name: "twitter:card", content: "summary_large_image" }],
  ],
  buildEnd: ({ outDir }) => copyFileSync(join(ROOT, "docs/images/merge.png"), join(outDir, "merge.png")),
  markdown: {
    anchor: { slugify },
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    config: configureMarkdown,
  },
  transformPageData(page) {
    if (page.relativePath !== "index.md") return;
    const actions = [
      { text: "Quick start", link: sidebar[0]?.items[0]?.link ?? "/docs/" },
      { text: "All pages", link: "/docs/", theme: "alt" },
    ];
    page.title = title;
    page.frontmatter = {
      layout: "home",
      titleTemplate: false,
      hero: { name: title, text: result.replaceAll("\n", " "), tagline, actions },
    };
  },
  themeConfig: {
    logo: "/icon.svg",
    nav: groups.map(({ text }, index) => ({ text, link: sidebar[index]?.items[0]?.link ?? "/" })),
    sidebar: { "/docs/": sidebar },
    outline: [2, 3],
    search: {
      provider: "local",
      options: {
        miniSearch: {
          options: {
            // Names such as q4_k_m and numbers such as 87.5 are words. VitePress sends functions to the browser as text.
            tokenize: (text) => text.split(/[^\p{L}\p{N}_.]+|\.(?![\p{L}\p{N}])|(?<![\p{L}\p{N}])\./u),
          },
          searchOptions: {
            // Of a text of several words, pages that have all of them come first.
            fuzzy: (term) => (/\d/.test(term) || term.length < 5 ? false : 0.2),
            boost: { title: 6, titles: 2, text: 1 },
            // Guides before references, and those before the history of the project.
            boostDocument: (id) =>
              /CHANGELOG|docs\/decisions|ARCHITECTURE|CONTRIBUTING|SECURITY/.test(id)
                ? 0.15
                : /docs\/api\//.test(id)
                  ? 0.25
                  : /docs\/(commands|fields|results|from-1-to-2)/.test(id)
                    ? 0.6
                    : 1,
          },
        },
      },
    },
    socialLinks: [{ icon: "github", link: source }],
    editLink: { pattern: `${source}/edit/main/:path`, text: "Edit this page" },
    externalLinkIcon: true,
  },
  vite: {
    publicDir: join(ROOT, "src/studio/page/public"),
    plugins: [repositoryPages],
    build: { chunkSizeWarningLimit: 2000 },
  },
});
