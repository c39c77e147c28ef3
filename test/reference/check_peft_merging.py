"""Merges of LoRA adapters beside PEFT's add_weighted_adapter: the change of each weight, by combination type.

    python check_peft_merging.py BASE -- COMMAND...

BASE is a Llama folder; COMMAND starts layergraft. Prints, for each type, the largest difference of a change as a share of the
largest change.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

BASE = Path(sys.argv[1]).resolve()
COMMAND = sys.argv[sys.argv.index("--") + 1 :]
WEIGHTS = [1.0, 0.5]
NAMES = ["one", "two"]
RANK, DENSITY = 8, 0.5


def random_adapter(seed: int, out: Path) -> None:
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    peft = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"]))
    for name, weight in peft.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.02)
    peft.save_pretrained(out)


def changes(model: PeftModel, name: str) -> dict[str, torch.Tensor]:
    return {
        path: module.get_delta_weight(name).detach()
        for path, module in model.named_modules()
        if name in getattr(module, "lora_A", {})
    }


def loaded(folder: Path, name: str) -> dict[str, torch.Tensor]:
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    return changes(PeftModel.from_pretrained(model, folder, adapter_name=name), name)


def difference(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    assert ours.keys() == theirs.keys(), (list(ours)[:2], list(theirs)[:2])
    largest = max(float(change.abs().max()) for change in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours) / largest


def run(*words: object) -> None:
    subprocess.run([*COMMAND, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


with tempfile.TemporaryDirectory() as folder:
    root = Path(folder)
    for seed, name in enumerate(NAMES):
        random_adapter(seed, root / name)
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    peft = PeftModel.from_pretrained(model, root / "one", adapter_name="one")
    peft.load_adapter(root / "two", adapter_name="two")
    models = [{"model": f"{BASE}+{root / name}", "weight": weight} for name, weight in zip(NAMES, WEIGHTS)]
    arithmetic = {"method": "task_arithmetic", "base": str(BASE), "models": models, "lambda": 1, "normalize": False}
    # PEFT divides by the number of adapters that agree, and takes the root of a weight: with weights of 1 both are the same.
    ties = {"method": "ties", "base": str(BASE), "models": [{**one, "weight": 1} for one in models], "density": DENSITY}
    recipes = {
        "cat": arithmetic,
        "ties": {**ties, "lambda": 1, "normalize": True, "trim": "tensor", "cutoff": "exact"},
    }
    for kind, recipe in recipes.items():
        more = {} if kind == "cat" else {"density": DENSITY, "majority_sign_method": "total"}
        peft.add_weighted_adapter(NAMES, WEIGHTS if kind == "cat" else [1.0, 1.0], kind, combination_type=kind, **more)
        (root / f"{kind}.json").write_text(json.dumps({**recipe, "as": "adapter"}))
        run("merge", root / f"{kind}.json", "--out", root / kind)
        print(kind, difference(loaded(root / kind, kind), changes(peft, kind)))
    peft.add_weighted_adapter(NAMES, WEIGHTS, "svd", combination_type="svd", svd_rank=RANK)
    (root / "full.json").write_text(json.dumps({**arithmetic, "dtype": "float32"}))
    run("merge", root / "full.json", "--out", root / "full")
    run("extract", "--base", BASE, "--model", root / "full", "--rank", RANK, "--out", root / "svd")
    print("svd", difference(loaded(root / "svd", "svd"), changes(peft, "svd")))
