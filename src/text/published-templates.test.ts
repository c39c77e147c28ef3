// Published chat templates, and snippets of Jinja, against transformers: see test/fixtures/tokenizers/make_published_templates.py.
import { describe, expect, it } from "vitest";
import { readFixture } from "../../test/support/tokenizer-fixtures.js";
import { LayergraftError } from "../kit/errors.js";
import { type ChatMessage, makeChatTemplate, TemplateError } from "./chat-template.js";

interface Published {
  now: string;
  variables: Record<string, unknown>;
  conversations: Record<
    string,
    { messages: ChatMessage[]; add_generation_prompt: boolean; variables: Record<string, unknown> }
  >;
  templates: Record<string, string>;
  /** The text, or null where transformers refuses. */
  results: [template: string, conversation: string, text: string | null][];
  /** More snippets, with their text or null. */
  lines: [template: string, text: string | null][];
  snippets: {
    messages: ChatMessage[];
    probes: { name: string; template: string; expected?: string; error?: boolean }[];
  };
}

const { now, variables, conversations, templates, results, snippets, lines } = readFixture(
  "published-templates",
) as unknown as Published;

/** What transformers renders and no published template has. */
const UNSUPPORTED =
  /\|\s*(attr|batch|e|escape|groupby|pprint|striptags|truncate|urlencode|wordcount|xmlattr)\b|\b(cycler|joiner)\(|loop\.changed|recursive|\{%-? call|%[#oegc]/;
const REFUSED =
  /((is|are) not supported|is not a supported tag|'(cycler|joiner)' is undefined|no attribute 'changed')$/;

describe("published templates", () => {
  it.each(Object.keys(templates))("render %s as transformers", (name) => {
    const template = makeChatTemplate(templates[name] ?? "", { variables });
    for (const [, key, text] of results.filter(([of]) => of === name)) {
      const { messages, add_generation_prompt, variables: more } = conversations[key] ?? expect.fail(key);
      const render = () =>
        template.render(messages, { addGenerationPrompt: add_generation_prompt, variables: more, now: new Date(now) });
      if (text === null) expect(render, key).toThrow(TemplateError);
      else expect(render(), key).toBe(text);
    }
  });

  it.each(snippets.probes)("render the snippet $name as transformers", ({ template, expected, error }) => {
    const render = () =>
      makeChatTemplate(template, { variables }).render(snippets.messages, {
        addGenerationPrompt: true,
        now: new Date(now),
      });
    if (UNSUPPORTED.test(template)) expect(render).toThrow(REFUSED);
    else if (error) expect(render).toThrow(LayergraftError);
    else expect(render()).toBe(expected);
  });

  it.each(lines)("render the line %s as transformers", (template, text) => {
    const render = () => makeChatTemplate(template, { variables }).render(snippets.messages);
    if (UNSUPPORTED.test(template)) expect(render).toThrow(REFUSED);
    else if (text === null) expect(render).toThrow(LayergraftError);
    else expect(render()).toBe(text);
  });
});
