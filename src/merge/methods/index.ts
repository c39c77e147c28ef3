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

export const METHODS = [
  swap,
  shareSwap,
  dominant,
  shuffle,
  revert,
  passthrough,
  soup,
  slerp,
  nuslerp,
  multislerp,
  karcher,
  nearswap,
  taskArithmetic,
  chatVector,
  lines,
  aim,
  ties,
  dareLinear,
  dareTies,
  breadcrumbs,
  breadcrumbsTies,
  dellaLinear,
  della,
  modelStock,
  fisher,
  regmean,
  sce,
  ram,
  ramPlus,
  consensus,
  magmax,
  widen,
  arceeFusion,
  moe,
  transplant,
  iso,
  tsvM,
  dgHard,
] as const;

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
