// The command of a verb: its flags, help and completion, progress, notes and output, all from the verb.
import type { Command } from "commander";
import type { z } from "zod";
import type { Progress } from "../../kit/index.js";
import type { Located, Noted, Takes, Verb } from "../../verbs/shared/index.js";
import { declared, type Extra, type Flags, type Input } from "./verb-flags.js";
import { inputOf, locatedFor, locatedInput } from "./verb-input.js";
import { carryOut } from "./verb-run.js";

/** What adds a verb to the program, for the table of commands. */
export function verbCommand<Schema extends z.ZodObject, Result extends Noted, P extends Progress, Planned>(
  verb: Verb<Schema, Result, P, Planned>,
  extra?: Extra,
): (program: Command) => void {
  const plain = verb as unknown as Verb;
  return (program) => {
    declared(program, plain, extra).action(async (...args: unknown[]) => {
      const command = args.at(-1) as Command;
      const given = command.opts<Flags>();
      if (await extra?.before?.(given, command.args)) return;
      const { input = {}, flags = given } = (await extra?.settled?.(given, command.args)) ?? {};
      const located = await locatedInput(plain, flags, command.args, { input, ...extra });
      if (await extra?.instead?.(located as Located<never>, flags)) return;
      await carryOut(plain, located, flags, extra);
    });
  };
}

/** What adds a command that is no verb, but is told as one. @param action takes the checked input, and the flags of every command */
export function takingCommand<Schema extends z.ZodObject>(
  takes: Takes<Schema>,
  action: (input: z.output<Schema>, flags: Flags) => Promise<void>,
): (program: Command) => void {
  const plain = takes as unknown as Verb;
  return (program) => {
    declared(program, plain).action(async (...args: unknown[]) => {
      const command = args.at(-1) as Command;
      const { input } = await locatedInput(plain, command.opts<Flags>(), command.args, { input: {} });
      await action(input as z.output<Schema>, command.opts<Flags>());
    });
  };
}

/** Carries out a verb as its command does, for another command. @param input fields that come from elsewhere than flags */
export async function callByFlags<V>(verb: V, input: Input, flags: object): Promise<void> {
  const plain = verb as Verb;
  const given = { ...(await inputOf(plain, flags as Flags, [])), ...input };
  await carryOut(plain, await locatedFor(plain, given, flags as Flags), flags as Flags);
}
