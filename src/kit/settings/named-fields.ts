// Fields that name something outside the input: their type is the word for it, by which flags, forms and steps know them.
import { z } from "zod";

const named = z
  .string()
  .min(1)
  .refine((text) => !text.includes("\0"), "must not have a NUL character");

/** A field that names a folder, a file, a task, or a model: a folder, `FOLDER+ADAPTER`, or a name on the hub. */
export const namedField = (title: "source" | "folder" | "file" | "task", description: string) =>
  named.meta({ title, description });
