// What a row becomes: a conversation. A prompt and a response are one of two messages.

export type Role = "system" | "user" | "assistant";

export interface Message {
  readonly role: Role;
  readonly content: string;
}

/** One thing to learn from: messages, of which the assistant's are the responses. */
export interface Example {
  readonly messages: readonly Message[];
}

/** What a mapping makes of a row. */
export interface Mapped {
  /** Examples, in an order that depends on the row alone; several for a translation pair. */
  readonly examples: readonly Example[];
  /**
   * What identifies the row: the texts that its examples are made of, whatever the instructions around them. Which side
   * of a held-out split the row falls on depends on this alone.
   */
  readonly key: string;
}

/** Why a row gave no example: `empty` is counted, anything else says what cannot be understood. */
export type Unmapped = "empty" | { readonly problem: string };

/** A text that identifies an example; different examples have different ones. */
export function keyOf(messages: readonly Message[]): string {
  return JSON.stringify(messages.map(({ role, content }) => [role, content]));
}

/** Whether there is a response to learn. */
export function hasResponse(messages: readonly Message[]): boolean {
  return messages.some(({ role, content }) => role === "assistant" && content.trim() !== "");
}
