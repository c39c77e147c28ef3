import { ELEMENTWISE } from "./elementwise.js";
import { INDEXING } from "./indexing.js";
import { MATRIX } from "./matrix.js";
import { MOVEMENT } from "./movement.js";
import { NETWORK } from "./network.js";
import type { Operation } from "./operation.js";

export const OPERATIONS: ReadonlyMap<string, Operation> = new Map(
  [...ELEMENTWISE, ...MATRIX, ...MOVEMENT, ...INDEXING, ...NETWORK].map((operation) => [operation.name, operation]),
);
