// Whether text from right to left can move what is beside it.
import type { Page } from "playwright-core";

/**
 * Texts of a page in which letters from right to left share a run with other text: each is to be in an element of its own, or to have
 * isolates around it. Texts of people, in elements of direction `auto`, are theirs.
 */
export function mixedDirections(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const found = [];
    const letters = /[\\u0590-\\u08ff]/;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!letters.test(node.data) || node.parentElement.closest("script, style, pre, code, title, bdi, [dir=auto]")) continue;
      if (letters.test(node.data.replace(/\\u2068[^\\u2069]*\\u2069/g, ""))) found.push(node.parentElement.tagName + ": " + node.data);
    }
    for (const input of document.querySelectorAll("input:not([type]), input[type=text], textarea, select"))
      if (letters.test(input.value) && input.dir !== "auto") found.push(input.tagName + ": " + input.value);
    return found;
  })()`);
}

/** Where parts of a text in an element, each after the one before, are from the left, in pixels. */
export function placesOfText(page: Page, selector: string, parts: readonly string[]): Promise<number[]> {
  return page.evaluate(`(() => {
    const walker = document.createTreeWalker(document.querySelector(${JSON.stringify(selector)}), NodeFilter.SHOW_TEXT);
    const nodes = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) nodes.push(node);
    return ${JSON.stringify(parts)}.map((part) => {
      const node = nodes.find(({ data }) => data.includes(part));
      nodes.splice(0, nodes.indexOf(node) + 1);
      const range = document.createRange();
      range.setStart(node, node.data.indexOf(part));
      range.setEnd(node, node.data.indexOf(part) + part.length);
      return range.getBoundingClientRect().left;
    });
  })()`);
}
