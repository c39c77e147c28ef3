// Commander with types that follow from the flags that a command declares; the second package has types alone.
import type { OptionValues, Command as TypedCommand, Option as TypedOption } from "@commander-js/extra-typings";
import { type Command as PlainCommand, Option as PlainOption } from "commander";

export type Command = TypedCommand;
export const Option = PlainOption as unknown as typeof TypedOption;

/** Adds flags to a command. */
export interface Adding<Flags> {
  <A extends unknown[], O extends OptionValues>(
    command: TypedCommand<A, O>,
  ): TypedCommand<A, O & { [K in keyof Flags]: Flags[K] }>;
  (command: PlainCommand): PlainCommand;
}

/** A function that adds the flags of an interface to a command, whose types follow. */
export function adding<Flags>(add: (command: PlainCommand) => PlainCommand): Adding<Flags> {
  return add as never;
}
