"""Checks a layer swap made by layergraft against PyTorch, and that transformers opens the folder as it is.

Not part of `npm test`. Needs torch, transformers and safetensors. Run from the project's folder, after a build:
    python test/reference/check_with_transformers.py
"""
import re, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, CohereConfig, Gemma2Config, LlamaConfig, Qwen2Config, logging

logging.disable_progress_bar()
logging.set_verbosity_error()

COMMON = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, vocab_size=160)
FAMILIES = {
    "llama": lambda: LlamaConfig(**COMMON, tie_word_embeddings=False),
    "llama-tied": lambda: LlamaConfig(**COMMON, tie_word_embeddings=True),
    "qwen2": lambda: Qwen2Config(**COMMON, tie_word_embeddings=True),
    "cohere": lambda: CohereConfig(**COMMON, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "gemma2": lambda: Gemma2Config(**COMMON, head_dim=16),
}
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"


def expert(family, seed, dtype, folder):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(FAMILIES[family]())
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    model.to(dtype).save_pretrained(folder, max_shard_size="100KB" if seed == 1 else "1GB")


def stored(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            tensors |= {name: f.get_tensor(name) for name in f.keys()}
    return tensors


def swap(task, language, layers, bottom, top, bottom_transition, top_transition):
    merged = {}
    for name, t in task.items():
        l = language[name]
        number = re.search(r"layers\.(\d+)\.", name)
        n = None if number is None else int(number[1])
        if n is not None and (n < bottom or n > layers - 1 - top):
            merged[name] = l
        elif n is not None and bottom + bottom_transition <= n <= layers - 1 - top - top_transition:
            merged[name] = t
        else:
            merged[name] = ((t.float() + l.float()) / 2).to(t.dtype)
    return merged


failures = 0
with tempfile.TemporaryDirectory() as root:
    for family in FAMILIES:
        for dtype_name, dtype in DTYPES.items():
            here = Path(root) / f"{family}-{dtype_name}"
            expert(family, 1, dtype, here / "task")
            expert(family, 2, dtype, here / "language")
            command = ["node", CLI, "swap", "--task", here / "task", "--language", here / "language", "--out", here / "merged",
                       "--bottom", "2", "--top", "1", "--bottom-transition", "1", "--top-transition", "2", "--shard-size", "200kB", "--quiet"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            wanted = swap(stored(here / "task"), stored(here / "language"), 8, 2, 1, 1, 2)
            got = stored(here / "merged")
            same = got.keys() == wanted.keys() and all(got[n].dtype == wanted[n].dtype and torch.equal(got[n], wanted[n]) for n in wanted)
            model, info = AutoModelForCausalLM.from_pretrained(here / "merged", dtype=dtype, output_loading_info=True)
            clean = not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
            loaded = all(torch.equal(p, wanted[n]) for n, p in model.named_parameters() if n in wanted)
            with torch.no_grad():
                finite = bool(torch.isfinite(model(torch.tensor([[3, 4, 5]])).logits).all())
            ok = same and clean and loaded and finite
            failures += not ok
            print(f"{family:12} {dtype_name:9} {len(wanted):4} tensors  equal to PyTorch: {same}  loads cleanly: {clean and loaded}  runs: {finite}")
sys.exit(failures > 0)
