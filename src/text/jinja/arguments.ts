// Arguments of filters, tests and methods, by position or name.
import { fail, type Named, type Value } from "./values.js";

/** Binds arguments to parameters. Of `name=` the value is undefined where it is not given; `name` must be given. */
export function bind(
  of: string,
  parameters: readonly string[],
  args: readonly Value[],
  named: Named,
): (Value | undefined)[] {
  if (args.length > parameters.length) {
    fail(`${of}() takes at most ${parameters.length} arguments (${args.length} given)`);
  }
  const names = parameters.map((parameter) => parameter.replace("=", ""));
  const bound: (Value | undefined)[] = names.map((_, i) => args[i]);
  for (const [name, value] of named) {
    const at = names.indexOf(name);
    if (at === -1) fail(`${of}() got an unexpected keyword argument '${name}'`);
    if (bound[at] !== undefined) fail(`${of}() got multiple values for argument '${name}'`);
    bound[at] = value;
  }
  for (const [i, parameter] of parameters.entries()) {
    if (bound[i] === undefined && !parameter.endsWith("=")) fail(`${of}() needs the argument '${parameter}'`);
  }
  return bound;
}
