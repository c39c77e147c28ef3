"""Checks that PEFT opens the adapters that `layergraft extract` writes, that base plus adapter equals the model, and
that the share kept is within 1e-3 of numpy's float64 singular value decomposition.

Not part of `npm test`. Needs torch, transformers, peft and safetensors. Run from the project's folder, after a build:
    python test/reference/check_extract_with_peft.py
"""
import json, subprocess, tempfile
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, logging
from transformers import Qwen2Config, Qwen2ForCausalLM

logging.disable_progress_bar()
logging.set_verbosity_error()
ROOT = Path(__file__).parents[2]
SIZES = dict(vocab_size=160, hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2)
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen2 untied": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=False)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=160, n_embd=64, n_layer=3, n_head=4)),
}
TOKENS = torch.arange(24)[None] * 5 % 160
# Tokens that the fine-tune adds.
MORE = torch.arange(160, 167)[None]


def tune(model, rank, others):
    """Adds a change of this rank (None: of any) to the linear weights, and noise to the others."""
    for name, p in model.named_parameters():
        is_linear = p.ndim == 2 and not any(part in name for part in ("embed", "wte", "wpe"))
        if is_linear and rank:
            p.data += 0.02 * torch.randn(p.shape[0], rank) @ torch.randn(rank, p.shape[1])
        elif is_linear or others:
            p.data += 0.02 * torch.randn_like(p)


CASES = [
    ("llama", 3, False, ["--rank", "3"]),
    ("llama", 3, True, ["--rank", "3"]),
    ("llama", None, False, ["--energy", "0.8"]),
    ("llama", None, True, ["--rank", "64"]),
    ("qwen2", 3, False, ["--rank", "8"]),
    ("qwen2 untied", 3, True, ["--rank", "3"]),
    ("gpt2", 3, False, ["--rank", "3"]),
    ("llama", 3, "added", ["--rank", "3"]),
    ("qwen2", 3, "added", ["--rank", "3"]),
    ("qwen2 untied", None, "added", ["--rank", "64", "--embed-lora"]),
]
for family, rank, others, options in CASES:
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        base, tuned, out = (f"{folder}/{name}" for name in ("base", "tuned", "adapter"))
        model = MODELS[family]()
        model.save_pretrained(base)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        if others == "added":
            model.resize_token_embeddings(160 + MORE.shape[1])
        tune(model, rank, others == True)
        model.save_pretrained(tuned)
        tokens = torch.cat([TOKENS, MORE], dim=1) if others == "added" else TOKENS
        wanted = model.eval()(tokens).logits
        run = subprocess.run(["node", ROOT / "dist/cli/main.js", "extract", "--base", base, "--model", tuned, "--out", out,
                              "--json", "--quiet", *options], capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        report = json.loads(run.stdout)
        opened = AutoModelForCausalLM.from_pretrained(base)
        if report["rows"] is not None:
            opened.resize_token_embeddings(report["rows"])
        adapted = PeftModel.from_pretrained(opened, out)
        loaded = {name.replace(".default", "") for name, _ in adapted.named_parameters() if "lora_" in name}
        stored = {name for name in load_file(f"{out}/adapter_model.safetensors") if "lora_" in name}
        assert loaded == stored, loaded ^ stored
        with torch.no_grad():
            logits = adapted.eval()(tokens).logits
            merged = dict(adapted.merge_and_unload().named_parameters())
        after = dict(model.named_parameters())
        most = 0
        for module in report["modules"]:
            name = module["module"] + ".weight"
            change = (after[name] - before[name]).detach().numpy().astype(np.float64)
            squares = np.linalg.svd(change, compute_uv=False) ** 2
            best = squares[: module["rank"]].sum() / squares.sum()
            left = ((after[name] - merged[name]).detach().numpy().astype(np.float64) ** 2).sum() / squares.sum()
            most = max(most, best - (1 - left))
            assert best - (1 - left) < 1e-3 and abs(1 - left - module["share"]) < 1e-5, (name, best, left, module)
        is_exact = rank is not None or "64" in options
        difference = (logits - wanted).abs().max().item()
        assert not is_exact or difference < 1e-4, difference
        print(f"ok  {family} {options}, others changed: {others}; {len(report['modules'])} weights, largest loss of share "
              f"against float64 {most:.1e}, largest difference of logits {difference:.1e}")
