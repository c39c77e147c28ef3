"""Checks that PEFT opens the adapters that layergraft writes: which modules get factors, their values, and what merging
them makes of the base.

Not part of `npm test`. Needs torch, transformers, peft and safetensors. Run from the project's folder, after a build:
    python test/reference/check_lora_with_peft.py
"""
import json, subprocess, sys, tempfile
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, logging

logging.disable_progress_bar()
logging.set_verbosity_error()
ROOT = Path(__file__).parents[2]
BASE = ROOT / "test/fixtures/lora/base"
WRITE = """
import { openCheckpoint } from "layergraft/weights";
import { initialFactors, planLora, resolveSelection, writeAdapter } from "%(train)s";
const [base, folder, selection, rankStabilised] = process.argv.slice(1);
const checkpoint = await openCheckpoint(base);
const settings = { rank: 4, alpha: 6, rank_stabilised: rankStabilised === "true", dropout: 0.05 };
const plan = planLora(resolveSelection(selection, checkpoint), checkpoint.tensors, settings);
const factors = (module) => {
  const { a, b } = initialFactors(module, 4, 1);
  return { a, b: b.map((_, i) => Math.fround(Math.sin(i + module.out) / 10)) };
};
await writeAdapter(folder, { plan, factors, base });
console.log(JSON.stringify({ scale: plan.scale, modules: plan.modules.map(({ module }) => module) }));
"""
CASES = [
    ("layers", "false"),
    ("layers", "true"),
    ("attention of layers 0, 2", "true"),
    ("q_proj of layers 0 and mlp of layers 1", "false"),
]

plain = {name: p.detach().clone() for name, p in AutoModelForCausalLM.from_pretrained(BASE).named_parameters()}
for selection, stabilised in CASES:
    with tempfile.TemporaryDirectory() as folder:
        code = WRITE % {"train": (ROOT / "dist/train/index.js").as_uri()}
        run = subprocess.run(["node", "--input-type=module", "-e", code, str(BASE), folder, selection, stabilised],
                             cwd=ROOT, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        wrote = json.loads(run.stdout)
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(BASE), folder)
        stored = load_file(Path(folder) / "adapter_model.safetensors")
        loaded = {name.replace(".default", ""): p for name, p in model.named_parameters() if "lora_" in name}
        assert set(loaded) == set(stored), set(loaded) ^ set(stored)
        assert all(torch.equal(loaded[name], stored[name]) for name in stored)
        merged = dict(model.merge_and_unload().named_parameters())
        for name, base in plain.items():
            module = name.removesuffix(".weight")
            wanted = base
            if module in wrote["modules"]:
                a, b = (stored[f"base_model.model.{module}.lora_{side}.weight"] for side in "AB")
                wanted = base + wrote["scale"] * (b @ a)
            assert torch.allclose(merged[name], wanted, atol=1e-6), name
        print(f"ok  {selection!r}, rank-stabilised {stabilised}: {len(wrote['modules'])} modules")
