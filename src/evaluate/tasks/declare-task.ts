import type { Language } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { withFidelity } from "./language-fidelity.js";
import { matchProtocol, type Protocol, shotsOf } from "./protocol.js";
import { type LoadedItems, limitItems, type OpenOptions, type Task } from "./task.js";
import type { OpenData } from "./task-data.js";

/** A task of a family, with what is its own. */
export interface TaskDeclaration extends Pick<Task, "name" | "title" | "metrics" | "read" | "score" | "benchmark"> {
  /** Default: false. */
  readonly executes?: boolean;
  /** The language that answers in text are to be written in. Default: none. */
  readonly answersIn?: Language | undefined;
  /** How many items the published data set has, and how a note on another number begins and counts them. */
  readonly published?: { readonly count: number; readonly what: string; readonly unit: string };
  load(data: OpenData): Promise<Partial<LoadedItems> & Pick<LoadedItems, "items">>;
}

/**
 * Opens a task of a family.
 * @param protocols of the family; the first is the default
 * @throws RecipeError for shots that the protocol does not have
 */
export function declareTask<P extends Protocol>(
  options: OpenOptions,
  protocols: readonly P[],
  declare: (protocol: P, shots: number) => TaskDeclaration,
): Task {
  const asked = matchProtocol(options.protocol, protocols);
  const chat = protocols.find(({ form }) => form === "chat");
  return {
    ...declareAs(asked ?? (protocols[0] as P), options, declare),
    ...(asked || !chat ? {} : { asChat: declareAs(chat, options, declare) }),
  };
}

function declareAs<P extends Protocol>(
  protocol: P,
  options: OpenOptions,
  declare: (protocol: P, shots: number) => TaskDeclaration,
): Task {
  const shots = shotsOf(protocol, options.shots);
  const { load, published, executes = false, answersIn, ...task } = declare(protocol, shots);
  return {
    ...withFidelity(task, answersIn),
    protocol: { specialTokens: true, ...protocol },
    shots,
    executes,
    async load(data, { limit, signal } = {}) {
      const { items, notes = [] } = await load({ ...data, signal });
      const isWhole = published === undefined || items.length === published.count;
      const note = isWhole
        ? []
        : [
            `${published.what} has ${plural(items.length, published.unit)} here, not ${published.count.toLocaleString("en-US")}`,
          ];
      return { items: limitItems(items, limit), notes: [...notes, ...note] };
    },
  };
}
