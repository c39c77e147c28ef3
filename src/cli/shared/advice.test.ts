import { expect, test } from "vitest";
import { MismatchError, OutputError } from "../../kit/index.js";
import { asFlag, withAdvice } from "./advice.js";

const FLAGS = new Set(["--force", "--out", "--allow-unrelated"]);

test("the command line words an error's option as flags of the running command", () => {
  const exists = new OutputError("merged already exists", { option: "force" });
  expect(withAdvice(exists, FLAGS)).toBe("merged already exists. Pass --force to replace it, or choose another --out.");
  expect(withAdvice(exists, new Set(["--out"]))).toBe("merged already exists. Choose another --out.");
  expect(withAdvice(exists, new Set())).toBe("merged already exists");
});

test("fields of a run that does not fit are worded as flags of train", () => {
  const short = new OutputError("Use a smaller batch.", { option: "batch", value: "8" });
  expect(withAdvice(short, new Set(["--batch"]))).toBe("Use a smaller batch. Pass --batch 1 --accumulation 8.");
  expect(withAdvice(short, FLAGS)).toBe("Use a smaller batch.");
  expect(asFlag("dtype", "float32")).toBe("Pass --dtype float32");
});

test("advice follows a list of problems on its own line, and a sentence keeps one full stop", () => {
  const unrelated = new MismatchError("These models look unrelated:", ["a and b"], { option: "allowUnrelated" });
  expect(withAdvice(unrelated, FLAGS)).toBe(
    "These models look unrelated:\n  - a and b\nPass --allow-unrelated to merge them anyway.",
  );
  expect(withAdvice(new OutputError("It is an input.", { option: "out" }), FLAGS)).toBe(
    "It is an input. Choose another --out.",
  );
  expect(withAdvice(new OutputError("It is an input."), FLAGS)).toBe("It is an input.");
  expect(withAdvice(new OutputError("It is an input.", { option: "unknown" }), FLAGS)).toBe("It is an input.");
});
