// The methods by mergekit's names.
import { didYouMean, shorten } from "../../kit/printing/index.js";
import { METHODS } from "../methods/index.js";
import type { Translation } from "../methods/mergekit.js";
import type { Method } from "../methods/method.js";

export const TRANSLATIONS: Readonly<Record<string, Translation>> = Object.fromEntries(
  (METHODS as readonly Pick<Method, "name" | "mergekit">[]).flatMap(({ name, mergekit }) =>
    mergekit ? [[mergekit.name ?? name, mergekit]] : [],
  ),
);

/** Why a method cannot be translated; undefined if it can. */
export function refusalOf(method: string): string | undefined {
  if (Object.hasOwn(TRANSLATIONS, method)) return undefined;
  const known = Object.keys(TRANSLATIONS);
  return `mergekit has no method ${shorten(method)}; supported are ${known.join(", ")}${didYouMean(method, known)}`;
}

/** Every parameter that some method of mergekit has. */
export const PARAMETERS: readonly string[] = [
  ...new Set(Object.values(TRANSLATIONS).flatMap(({ own, common }) => [...own, ...common])),
];
