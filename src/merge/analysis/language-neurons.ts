// The feed-forward neurons that fire for few languages, from activations that `measureStatistics` wrote for each language.

import { readTensor, type SafetensorsFile } from "../../formats/safetensors/index.js";
import { CheckpointError, RecipeError } from "../../kit/index.js";
import { concatenate } from "../../tensor/streaming/index.js";
import { openStatistics } from "../plan/needed-statistics.js";
import { floats } from "./read-analysis.js";

/** Where the probabilities of a neuron that counts as active lie above those of others: their 95th percentile. */
const ACTIVE = 0.95;

/** A neuron that was chosen. */
export interface LanguageNeuron {
  readonly layer: number;
  /** Index in its layer. */
  readonly neuron: number;
  /** Entropy of its probabilities over the languages, in nats. */
  readonly entropy: number;
  /** Share of tokens at which its gate is positive, by language, in the order of `languages`. */
  readonly probabilities: readonly number[];
  /** Languages whose probability is above the threshold. */
  readonly languages: readonly string[];
}

/** What `findLanguageNeurons` finds. */
export interface LanguageNeurons {
  readonly languages: readonly string[];
  readonly layers: number;
  /** Of the whole model. */
  readonly neurons: number;
  /** The 95th percentile of all probabilities. */
  readonly threshold: number;
  /** By entropy, the lowest first. */
  readonly chosen: readonly LanguageNeuron[];
}

/** Options of `findLanguageNeurons`. */
export interface NeuronOptions {
  /** Share of all neurons to choose, 0 to 1. Default: 0.01, as in the paper. */
  readonly share?: number | undefined;
}

/**
 * Finds language-specific neurons by language activation probability entropy, LAPE (Tang et al., arXiv 2402.16438, section
 * 2.2): of the neurons that some language activates with a probability above the 95th percentile of all probabilities, those
 * with the lowest entropy over languages.
 * @param folders statistics of the kind activations of one model, by language; at least two
 * @throws RecipeError if there are fewer than two languages, or a folder has other statistics
 * @throws CheckpointError if a folder cannot be opened or has other values than shares, or they are of different models
 */
export async function findLanguageNeurons(
  folders: Readonly<Record<string, string>>,
  { share = 0.01 }: NeuronOptions = {},
): Promise<LanguageNeurons> {
  const languages = Object.keys(folders);
  if (languages.length < 2) throw new RecipeError("neurons are compared between languages. Give two or more of them.");
  const measured = await Promise.all(Object.values(folders).map(readActivations));
  const [first] = measured as [Layer[]];
  const layout = (layers: readonly Layer[]) => layers.map(({ layer, values }) => `${layer}:${values.length}`).join();
  const other = measured.findIndex((layers) => layout(layers) !== layout(first));
  if (other > 0) {
    const [one, two] = [languages[0], languages[other]].map((name) => folders[name as string]);
    throw new CheckpointError(
      `${one} and ${two} were measured on models of different sizes. Measure one model on both.`,
    );
  }
  const ofLanguage = measured.map((layers) =>
    concatenate(
      layers.map(({ values }) => values),
      Float32Array,
    ),
  );
  const sorted = concatenate(ofLanguage, Float32Array).sort();
  const threshold = sorted[Math.round(ACTIVE * sorted.length) - 1] ?? 0;
  const places = first.flatMap(({ layer, values }) => Array.from(values.keys(), (neuron) => ({ layer, neuron })));
  const active = places.flatMap((place, i): LanguageNeuron[] => {
    const probabilities = ofLanguage.map((values) => values[i] ?? 0);
    const above = languages.filter((_, l) => (probabilities[l] ?? 0) > threshold);
    return above.length > 0 ? [{ ...place, entropy: entropyOf(probabilities), probabilities, languages: above }] : [];
  });
  // Sorting is stable: of equal ones, the lower layer comes first.
  const chosen = active.sort((a, b) => a.entropy - b.entropy).slice(0, Math.round(share * places.length));
  return { languages, layers: first.length, neurons: places.length, threshold, chosen };
}

function entropyOf(probabilities: readonly number[]): number {
  const total = probabilities.reduce((sum, one) => sum + one, 0);
  return probabilities.reduce((sum, one) => (one > 0 ? sum - (one / total) * Math.log(one / total) : sum), 0);
}

interface Layer {
  readonly layer: number;
  readonly values: Float32Array;
}

/** Activations by layer, the lowest first. */
async function readActivations(folder: string): Promise<Layer[]> {
  const { files, tensors, name } = await openStatistics(folder, { field: folder, kind: "activations" });
  const file = files[0] as SafetensorsFile;
  const layers = file.tensors.map(async (tensor): Promise<Layer> => {
    const bytes = await readTensor(file, tensor);
    const values = tensor.dtype === "F32" ? floats(bytes) : undefined;
    // Shares are sums in float32, which end a little above 1.
    if (!values?.every((share) => share >= 0 && share < 1.01)) {
      const message = `${name} has other values than shares of tokens at ${tensor.name}. Measure its activations again.`;
      throw new CheckpointError(message, { tensor: tensor.name });
    }
    return { layer: tensors.get(tensor.name)?.layer ?? 0, values };
  });
  return (await Promise.all(layers)).sort((a, b) => a.layer - b.layer);
}
