import type { CallingMessage } from "../../text/index.js";

export type Role = "system" | "user" | "assistant" | "tool";

export interface Message extends CallingMessage {
  readonly role: Role;
  /** Why a reply of the assistant is read but not learned, such as `marked weight: 0`. */
  readonly leftOut?: string | undefined;
}

/** The messages of the assistant are learned, but those left out. */
export interface Example {
  readonly messages: readonly Message[];
  /** Tools that the chat template shows to the model. */
  readonly tools?: readonly unknown[] | undefined;
}

/** The examples of a row. */
export interface Mapped {
  /** Several for a translation pair. */
  readonly examples: readonly Example[];
  /** The texts of the row without instructions, which decide whether it is held out. */
  readonly key: string;
}

/** Why a row has no example. */
export type Unmapped = "empty" | { readonly problem: string };

/** What is wrong with a row, as the end of a sentence. A mapping returns it as `problem`. */
export class RowProblem extends Error {}

/** Different for different texts. */
export function keyOf(messages: readonly Message[]): string {
  return JSON.stringify(
    messages.map(({ role, content, leftOut: _, ...rest }) =>
      Object.keys(rest).length > 0 ? [role, content, rest] : [role, content],
    ),
  );
}

/** Whether an example has more than its prompt. */
export function hasResponse(messages: readonly Message[]): boolean {
  return messages.some(({ role, leftOut }) => role === "assistant" && leftOut !== EMPTY);
}

/** Why a reply without content is left out. */
export const EMPTY = "empty";
