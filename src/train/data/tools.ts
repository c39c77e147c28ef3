// Tools and calls of them, as data sets write them: objects or JSON texts, with or without `function` around a name.
import { isObject } from "../../kit/index.js";
import { parseWritten } from "../../kit/numbers/index.js";
import type { ToolCall } from "../../text/index.js";
import { RowProblem } from "./example.js";

/** The value of a JSON text; other values as they are. */
function parsed(value: unknown, at: string): unknown {
  if (typeof value !== "string") return value;
  try {
    return parseWritten(value.trim() || "null");
  } catch {
    throw new RowProblem(`${at} is not valid JSON`);
  }
}

/** The tools in a column; undefined if there are none. */
export function toolsIn(value: unknown, at: string): readonly unknown[] | undefined {
  const tools = listIn(value, at).map((tool, i) => {
    const called = functionIn(tool, `${at}[${i}]`);
    // Parquet has one type for all parameters, so sets keep them as JSON texts.
    const parameters = parsed(called.parameters, `${at}[${i}].parameters`);
    return {
      ...(tool === called ? {} : tool),
      type: "function",
      function: { ...called, ...(parameters ? { parameters } : {}) },
    };
  });
  return tools.length > 0 ? tools : undefined;
}

/** The calls in a value: a list of them, or one. */
export function callsIn(value: unknown, at: string): ToolCall[] {
  return listIn(value, at).map((call, i) => {
    const { name, arguments: given } = functionIn(call, `${at}[${i}]`);
    const values = parsed(given, `${at}[${i}].arguments`) ?? {};
    if (!isObject(values)) throw new RowProblem(`${at}[${i}].arguments is not an object`);
    return {
      type: "function",
      ...(typeof call.id === "string" ? { id: call.id } : {}),
      function: { name, arguments: values },
    };
  });
}

function listIn(value: unknown, at: string): Readonly<Record<string, unknown>>[] {
  return [parsed(value, at) ?? []].flat().map((item, i) => {
    if (isObject(item)) return item;
    throw new RowProblem(`${at}[${i}] is not an object`);
  });
}

function functionIn(item: Readonly<Record<string, unknown>>, at: string) {
  const called = isObject(item.function) ? item.function : item;
  if (typeof called.name === "string") return called as typeof called & { readonly name: string };
  throw new RowProblem(`${at} has no name of a function; it has ${Object.keys(called).join(", ") || "no fields"}`);
}
