export type Role = "system" | "user" | "assistant";

export interface Message {
  readonly role: Role;
  readonly content: string;
}

/** The messages of the assistant are the responses. */
export interface Example {
  readonly messages: readonly Message[];
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

/** Different for different examples. */
export function keyOf(messages: readonly Message[]): string {
  return JSON.stringify(messages.map(({ role, content }) => [role, content]));
}

/** Whether there is a response to learn. */
export function hasResponse(messages: readonly Message[]): boolean {
  return messages.some(({ role, content }) => role === "assistant" && content.trim() !== "");
}
