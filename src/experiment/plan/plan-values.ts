import { z } from "zod";
import { didYouMean } from "../../kit/printing/index.js";

export const NAME = /^[A-Za-z0-9][\w.+-]*$/;
export const NAME_RULE = "must consist of letters, digits, -, _, . and +, and start with a letter or digit";

/** Checkpoints of a run, and of a family's selection. */
export const MAX_CHECKPOINTS = 1000;
/** Configurations and models of a merge. More are a mistake, and would fill the memory before anything runs. */
export const MAX_CONFIGURATIONS = 10_000;
export const MAX_MODELS = 100_000;

export const formatLimit = (number: number) => number.toLocaleString("en-US");

export const text = z.string("must be text").min(1, "must not be empty");
export const line = text.regex(/^[^\r\n]*$/, "must be one line");
export const name = text.regex(NAME, NAME_RULE);
export const count = z.int("must be a whole number").min(1, "must be at least 1");
export const flag = z.boolean("must be true or false");
export const whole = z.int("must be a whole number").min(0, "must not be negative");
export const share = z.number("must be a number").gt(0, "must be above 0").lt(1, "must be below 1");
export const mapping = z.record(z.string(), z.json());

/** One of some words; of a misspelled one, the error suggests which. */
export const oneOf = <const T extends readonly string[]>(words: T, rule: string) =>
  z.enum(words, { error: ({ input }) => `${rule}${typeof input === "string" ? didYouMean(input, words) : ""}` });

export const ROLES = ["task", "language", "joint", "other"] as const;
export type Role = (typeof ROLES)[number];

/** Words that recipes use for something else. */
export const RESERVED = ["base", "all", ...ROLES] as const;
