// What llama.cpp's graph of a family cannot compute.

import type { DecoderSpec } from "../../engine/model/index.js";
import type { LlamaCpp } from "../../families/index.js";
import { plural } from "../../kit/printing/index.js";

/** What a model has that its graph in llama.cpp does not compute, one sentence each; empty if it can be exported. */
export function unsupportedTraits(spec: DecoderSpec, architecture: LlamaCpp): string[] {
  const { activation = "silu", biases = [], differs = [], scales = [], embeddingScale, folds } = architecture;
  const problems = differs.flatMap((difference) => difference(spec) || []);
  if (spec.activation !== activation) problems.push(`its activation is ${spec.activation}, not ${activation}`);
  const roles = [
    ...(["q", "k", "v", "o", "gate", "up", "down", "qDown", "kvDown"] as const),
    ...(["mix", "convolution", "mixed"] as const),
  ];
  const biased = roles.filter(
    (role) => spec.layers.some(({ weights }) => weights[role]?.bias) && !biases.some((other) => other === role),
  );
  if (biased.length > 0) problems.push(`its ${plural(biased.length, "projection")} ${biased.join(", ")} have a bias`);
  const own = embeddingScale?.(spec) ?? 1;
  if (!folds && !scales.includes("embedding") && Math.abs(spec.embeddingScale / own - 1) > 1e-6) {
    problems.push(`it multiplies embeddings by ${spec.embeddingScale}`);
  }
  if (!scales.includes("residual") && spec.residualScale !== 1) {
    problems.push(`it multiplies residuals by ${spec.residualScale}`);
  }
  if (!folds && !scales.includes("logit") && spec.logitScale !== 1)
    problems.push(`it multiplies logits by ${spec.logitScale}`);
  const { growth } = spec.attention;
  const original = spec.ropes[0]?.scaling?.type === "yarn" ? spec.ropes[0].scaling.original : undefined;
  if (growth && (!architecture.growth || growth.every !== original)) {
    problems.push("it multiplies queries by a number that grows with their positions");
  }
  if (spec.attention.valueNorm && !architecture.localHeads) problems.push("it normalises values");
  return [
    ...problems,
    ...recurrenceProblems(spec, architecture),
    ...expertProblems(spec, architecture),
    ...windowProblems(spec, architecture),
    ...ropeProblems(spec, architecture),
  ];
}

function recurrenceProblems({ recurrence, layers }: DecoderSpec, architecture: LlamaCpp): string[] {
  if (!recurrence) return [];
  const { kind, state, innerNorm } = recurrence;
  if (kind !== architecture.recurrence) return [`its layers have a recurrence, ${kind}`];
  const problems: string[] = [];
  if (kind === "delta" && state?.keyWidth !== state?.valueWidth) {
    problems.push(`its keys are ${state?.keyWidth} wide, and its values ${state?.valueWidth}`);
  }
  if (kind === "mamba2" && layers.some(({ weights: { convolution } }) => convolution && !convolution.bias)) {
    problems.push("its convolutions have no bias");
  }
  if (kind === "mamba2" && innerNorm?.beforeGate) problems.push("it normalises before the gate of its state space");
  return problems;
}

function expertProblems({ routing, layers }: DecoderSpec, { experts }: LlamaCpp): string[] {
  if (!routing) return experts && !experts.optional ? ["it has no experts"] : [];
  if (!experts) return ["it is a mixture of experts"];
  const { scores = "softmax", dense = false, shared, clamp = null } = experts;
  const isSparse = layers.map((layer) => layer.experts !== undefined || !layer.weights.up);
  const first = dense ? isSparse.indexOf(true) : 0;
  const other = isSparse.findIndex((sparse, layer) => layer >= first && !sparse);
  const problems: string[] = [];
  if (other >= 0) problems.push(`its layer ${other} has no experts`);
  if ((routing.scores === "sigmoid") !== (scores === "sigmoid")) problems.push(`its scores are ${routing.scores}`);
  if (routing.scores === "softmax" && routing.normaliser === null) {
    problems.push("its shares of experts are not divided by their sum");
  }
  if (scores === "softmax" && routing.scale !== 1) problems.push(`it multiplies shares of experts by ${routing.scale}`);
  if (!shared && layers.some((layer) => layer.experts && layer.weights.up)) problems.push("tokens share an expert");
  if (routing.clamp?.limit !== clamp?.limit || routing.clamp?.alpha !== clamp?.alpha) {
    const { limit, alpha } = routing.clamp ?? {};
    problems.push(`the limit of its experts is ${limit}, with a factor of ${alpha}`);
  }
  return problems;
}

function windowProblems({ layers }: DecoderSpec, { windows }: LlamaCpp): string[] {
  const widths = new Set(layers.flatMap(({ window }) => (window === null ? [] : [window])));
  return windows && widths.size > 1 ? ["its layers have windows of different widths"] : [];
}

function ropeProblems(spec: DecoderSpec, architecture: LlamaCpp): string[] {
  const { ropeDivisors = [], unrotated = () => false, localBase, roundsYarn } = architecture;
  const other = spec.layers.findIndex((layer, index) => (layer.rope === null) !== unrotated(layer, index, spec));
  if (other >= 0) {
    return [
      `its layer ${other} ${spec.layers[other]?.rope === null ? "does not rotate" : "rotates"}, other than there`,
    ];
  }
  const [global, local] = spec.ropes;
  if (local && (local.scaling !== null || (!localBase && local.theta !== global?.theta))) {
    return ["its layers with windows have a rotation of their own"];
  }
  if (ropeDivisors.includes("always")) {
    return global?.long || global?.attentionFactor !== 1 ? ["its rotation changes scores or long texts"] : [];
  }
  return spec.ropes.flatMap(({ scaling, long }) => {
    if (scaling === null || scaling.type === "linear") return [];
    if (ropeDivisors.includes(long ? "two" : "one")) return [];
    // Without divisors, llama.cpp computes YaRN from two parameters alone.
    const { type } = scaling;
    const isPlain = type === "yarn" && (scaling.truncate || roundsYarn) && scaling.fast === 32 && scaling.slow === 1;
    return isPlain ? [] : [`its rotation is scaled by ${type === "yarn" ? "an unusual YaRN" : type}`];
  });
}
