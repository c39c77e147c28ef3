// LG's EXAONE.
import type { Family } from "./page/family.js";
import { everyNth } from "./page/layer-kinds.js";

export const exaone: readonly Family[] = [
  { name: "EXAONE 4", modelTypes: ["exaone4"], kinds: [everyNth(4, { field: "sliding_window_pattern" })] },
];
