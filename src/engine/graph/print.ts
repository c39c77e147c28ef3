// A graph as text, one node per line.
import { reachable } from "./gradients.js";
import { type Attribute, formatType, type Node } from "./node.js";

/**
 * `%12 = matmul(%3, q_proj.weight) transB=true : f32[batch, time, 64]`, in the order of computation. Nodes that no output
 * needs are left out.
 */
export function printGraph(outputs: Readonly<Record<string, Node>>): string {
  const nodes = reachable(Object.values(outputs));
  const nameOf = (node: Node) => {
    if (node.op === "input") return node.attributes.name as string;
    const values = node.attributes.values as readonly number[] | undefined;
    return node.op === "constant" && values?.length === 1 ? `${values[0]}` : `%${node.id}`;
  };
  const lines = nodes.flatMap((node) => {
    if (node.op === "constant" && nameOf(node) !== `%${node.id}`) return [];
    if (node.op === "input") return [`${nameOf(node)} : ${formatType(node)}`];
    const shown = Object.entries(node.attributes).filter(([key, value]) => isShown(key, value));
    const attributes = shown.map(([key, value]) => ` ${key}=${JSON.stringify(value).replaceAll('"', "")}`);
    return [
      `%${node.id} = ${node.op}(${node.inputs.map(nameOf).join(", ")})${attributes.join("")} : ${formatType(node)}`,
    ];
  });
  return [...lines, ...Object.entries(outputs).map(([name, node]) => `${name} <- ${nameOf(node)}`)].join("\n");
}

/** Leaves out flags that are off, a factor of 1, and what the type already shows. */
function isShown(key: string, value: Attribute): boolean {
  return value !== false && !(key === "alpha" && value === 1) && !["shape", "to", "key", "values"].includes(key);
}
