"""Core Space (arXiv 2509.17786) of the adapters in test/fixtures/peft/combined, in float64 with NumPy.

Writes the merged change of each module, B A times its scale: python make_core_space.py
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).parent.parent / "fixtures/peft/combined"
SCALED = {"first": 0.7, "second": 0.4}
DENSITY = 0.4


def read(name):
    config = json.loads((HERE / name / "adapter_config.json").read_text())
    tensors = load_file(HERE / name / "adapter_model.safetensors")
    factors = {}
    for key, value in tensors.items():
        module, side = key.removeprefix("base_model.model.").removesuffix(".weight").split(".lora_")
        factors.setdefault(module, {})[side] = value.astype(np.float64)
    scale = config["lora_alpha"] / config["r"] * SCALED[name]
    return {module: (pair["A"], scale * pair["B"]) for module, pair in factors.items()}


def ties(cores):
    flat = np.stack([core.ravel() for core in cores])
    kept = int(DENSITY * flat.shape[1])
    for row in flat:
        row[np.argsort(-np.abs(row), kind="stable")[kept:]] = 0
    sign = np.sign(flat.sum(0))
    sign[sign == 0] = np.sign(sign.sum())
    agrees = (np.sign(flat) == sign) & (flat != 0)
    mean = np.where(agrees, flat, 0).sum(0) / np.maximum(agrees.sum(0), 1)
    return mean.reshape(cores[0].shape)


def iso(cores):
    u, s, vt = np.linalg.svd(sum(cores), full_matrices=False)
    rank = int((s > 1e-7 * s[0]).sum())
    return s.mean() * u[:, :rank] @ vt[:rank]


def polar(matrix):
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    rank = int((s > 1e-7 * s[0]).sum())
    return u[:, :rank] @ vt[:rank]


def tsv_m(cores):
    own = min(cores[0].shape) // len(cores)
    parts = [np.linalg.svd(core, full_matrices=False) for core in cores]
    u = np.concatenate([p[0][:, :own] for p in parts], 1)
    s = np.concatenate([p[1][:own] for p in parts])
    vt = np.concatenate([p[2][:own] for p in parts], 0)
    return polar(u) @ np.diag(s) @ polar(vt)


experts = [read(name) for name in SCALED]
modules = sorted({module for expert in experts for module in expert})
for rule in (ties, iso, tsv_m):
    merged = {}
    for module in modules:
        pairs = [expert[module] for expert in experts if module in expert]
        vt = np.linalg.svd(np.concatenate([a for a, _ in pairs], 0), full_matrices=False)[2]
        u = np.linalg.svd(np.concatenate([b for _, b in pairs], 1), full_matrices=False)[0]
        cores = [u.T @ b @ a @ vt.T for a, b in pairs]
        merged[module] = (u @ rule(cores) @ vt).astype(np.float32)
    save_file(merged, HERE / f"core-{rule.__name__}.safetensors")
