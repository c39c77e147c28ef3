// All merge methods, in display order.
import { aim } from "./aim.js";
import { arceeFusion } from "./arcee-fusion.js";
import { breadcrumbs, breadcrumbsTies } from "./breadcrumbs.js";
import { chatVector } from "./chat-vector.js";
import { consensus } from "./consensus.js";
import { dareLinear, dareTies } from "./dare.js";
import { della, dellaLinear } from "./della.js";
import { dominant } from "./dominant.js";
import { fisher } from "./fisher.js";
import { karcher } from "./karcher.js";
import { lines } from "./lines.js";
import { modelStock } from "./model-stock.js";
import { moe } from "./moe.js";
import { multislerp } from "./multislerp.js";
import { nearswap } from "./nearswap.js";
import { nuslerp } from "./nuslerp.js";
import { passthrough } from "./passthrough.js";
import { ram, ramPlus } from "./ram.js";
import { regmean } from "./regmean.js";
import { revert } from "./revert.js";
import { sce } from "./sce.js";
import { shareSwap } from "./share-swap.js";
import { shuffle } from "./shuffle.js";
import { slerp } from "./slerp.js";
import { soup } from "./soup.js";
import { swap } from "./swap.js";
import { taskArithmetic } from "./task-arithmetic.js";
import { ties } from "./ties.js";
import { transplant } from "./transplant.js";
import { dgHard, iso, tsvM } from "./whole-matrices.js";
import { widen } from "./widen.js";

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
  widen,
  arceeFusion,
  moe,
  transplant,
  iso,
  tsvM,
  dgHard,
] as const;
