// All merge methods, in display order, and the arithmetic that they bring.
import { type Arithmetic, addArithmetic } from "../../tensor/streaming/index.js";
import { aim, relaxation } from "./aim.js";
import { arceeFusion, importanceThreshold } from "./arcee-fusion.js";
import { breadcrumbs, breadcrumbsTies } from "./breadcrumbs.js";
import { chatVector } from "./chat-vector.js";
import { consensus } from "./consensus.js";
import { dareLinear, dareTies } from "./dare.js";
import { della, dellaLinear } from "./della.js";
import { dominant, dominantWeights } from "./dominant.js";
import { fisher } from "./fisher.js";
import { harc } from "./harc.js";
import { magnitude } from "./inverse-magnitude.js";
import { karcher, karcherMean } from "./karcher.js";
import { lines } from "./lines.js";
import { magmax } from "./magmax.js";
import { modelStock, ratioOfTensor } from "./model-stock.js";
import { moe } from "./moe.js";
import { meanDirection, multislerp } from "./multislerp.js";
import { nearswap } from "./nearswap.js";
import { columnWeights, nuslerp } from "./nuslerp.js";
import { OPERATIONS } from "./operations.js";
import { passthrough } from "./passthrough.js";
import { overlapScales, ram, ramPlus } from "./ram.js";
import { regmean } from "./regmean.js";
import { revert } from "./revert.js";
import { sce, sharesOfSquares } from "./sce.js";
import { shareSwap, shareWeights } from "./share-swap.js";
import { shuffle } from "./shuffle.js";
import { arcWeights, slerp } from "./slerp.js";
import { soup } from "./soup.js";
import { swap } from "./swap.js";
import { taskArithmetic } from "./task-arithmetic.js";
import { normRatio } from "./task-vectors.js";
import { majoritySign, ties } from "./ties.js";
import { transplant } from "./transplant.js";
import { anyChange, dgHard, iso, tsvM } from "./whole-matrices.js";
import { columnScores, widen } from "./widen.js";

/** By what they do, in display order. */
export const METHOD_GROUPS = {
  "Choose whose each layer is": [swap, shareSwap, dominant, shuffle, revert, passthrough],
  "Average weights": [soup, slerp, nuslerp, multislerp, karcher, nearswap, modelStock, fisher, regmean],
  "Add changes from the base": [taskArithmetic, chatVector, lines, aim, ram, ramPlus, magmax, widen, arceeFusion],
  "Drop changes, and settle signs": [
    ...[ties, dareLinear, dareTies, breadcrumbs, breadcrumbsTies, dellaLinear, della, sce, consensus],
  ],
  "Make another kind of model": [moe, harc, transplant],
  "Baselines from singular values": [iso, tsvM, dgHard],
} as const;

export const METHODS = Object.values(METHOD_GROUPS).flat();

/** Offered before the others. */
export const USED_MOST: readonly string[] = [
  ...[swap, soup, slerp, taskArithmetic, chatVector, ties, dareTies, della, modelStock, passthrough],
].map(({ name }) => name);

/** What makes results of measurements. */
export const COMBINATIONS: readonly Arithmetic[] = [
  anyChange,
  arcWeights,
  columnScores,
  columnWeights,
  dominantWeights,
  importanceThreshold,
  karcherMean,
  magnitude,
  majoritySign,
  meanDirection,
  normRatio,
  overlapScales,
  ratioOfTensor,
  relaxation,
  sharesOfSquares,
  shareWeights,
];

// Whoever has the methods can compute their plans.
addArithmetic([...OPERATIONS, ...COMBINATIONS]);
