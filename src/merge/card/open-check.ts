// The check as a function that loads it: help and other verbs need not wait for methods, analysis and hub.
import { join } from "node:path";
import { exists } from "../../kit/files/index.js";
import type { CardCheck, CardOptions, CardPlan } from "./check-card.js";

export const CARD = "README.md";

/** @param folder of the model's files */
export const hasCard = (folder: string): Promise<boolean> => exists(join(folder, CARD));

const load = () => import("./check-card.js");

/**
 * Checks whether the weights of a model are what its card says, by a sample of their rows.
 * @param model a folder, or the name of a model on the hub
 * @throws CheckpointError or FormatError if the model cannot be read
 * @throws HubError if the hub cannot be reached; a source that it refuses is a verdict
 * @throws CancelledError if the signal fires
 */
export const checkCard = async (model: string, options: CardOptions): Promise<CardCheck> =>
  (await load()).checkCard(model, options);

/** What `checkCard` would compare, and the bytes that it would fetch. */
export const planCard = async (model: string, options: CardOptions): Promise<CardPlan> =>
  (await load()).planCard(model, options);
