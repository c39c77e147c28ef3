// The operations that methods bring, which threads compute. A thread's bundle starts here.
import type { Arithmetic } from "../../tensor/streaming/index.js";
import { importance } from "./arcee-fusion.js";
import { needed } from "./consensus.js";
import { dropByRank } from "./della.js";
import { electSigns } from "./elect-signs.js";
import { weigh } from "./fisher.js";
import { largest } from "./magmax.js";
import { stockRows } from "./model-stock.js";
import { approach } from "./nearswap.js";
import { slerpRows } from "./nuslerp.js";
import { unite } from "./ram.js";
import { regmeanRule } from "./regmean.js";
import { variance } from "./sce.js";
import { dgHardRule, isoRule, tsvRule } from "./whole-matrices.js";

export const OPERATIONS: readonly Arithmetic[] = [
  approach,
  dgHardRule,
  dropByRank,
  electSigns,
  // Its name in what version 2.0 wrote.
  { ...electSigns, name: "consensus" },
  importance,
  isoRule,
  largest,
  needed,
  regmeanRule,
  slerpRows,
  stockRows,
  tsvRule,
  unite,
  variance,
  weigh,
];
