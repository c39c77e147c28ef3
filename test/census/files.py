"""Reads and writes checkpoints of the census."""
import json
import os

import torch
import transformers
from safetensors.torch import load_file, save_file


def write_like(folder, source, tensors, config=None):
    os.makedirs(folder)
    with open(f"{source}/config.json") as file:
        written = json.load(file)
    with open(f"{folder}/config.json", "w") as file:
        json.dump({**written, **(config or {})}, file, indent=2)
    save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})


def perturbed(tensors, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (value + 0.01 * torch.randn(value.shape, generator=generator)).to(value.dtype) if value.is_floating_point() else value.clone()
        for name, value in tensors.items()
    }


def tensors_of(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            found.update(load_file(f"{folder}/{name}"))
    return found


def open_model(kind, folder):
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    problems = {
        key: sorted(map(str, info[key])) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]
    }
    return model.eval(), problems
