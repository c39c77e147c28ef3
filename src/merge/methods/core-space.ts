// Core Space: merges LoRA changes within the space that their factors span, where each is a small matrix.
import { z } from "zod";
import { CORE_RULES } from "../../weights/index.js";
import { sparsifyingMethod } from "./task-vectors.js";

export const coreSpace = sparsifyingMethod("added", {
  name: "core_space",
  title: "Core Space",
  summary: "Merges adapters in the small space that their factors span, by TIES, Iso-C or TSV-M. Writes an adapter.",
  symbol: "tau",
  definition:
    "tau_i = U M_i V^T, M_i = U^T B_i A_i V with the left singular vectors U of [B_1 ... B_N] and the right ones V of [A_1; ...; A_N], and rule(M_1, ..., M_N) of each matrix in the place of the sum",
  reference: "Panariello et al., NeurIPS 2025, arXiv 2509.17786",
  tag: "core-space",
  core: ({ rule, density }) => ({ rule, density }),
  shares: {},
  fields: () => ({
    rule: z
      .enum(CORE_RULES)
      .default("ties")
      .describe("how the small matrices are merged; a sum of them is task arithmetic"),
    density: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe("share of each small matrix that `ties` keeps, largest first"),
  }),
  example: { rule: "tsv_m" },
});
