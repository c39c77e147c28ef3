"""Checks what layergraft writes as FP8: codes and scales against PyTorch's rounding, and that transformers opens it.

Not part of `npm test`. Needs torch, transformers, accelerate and compressed-tensors. Run from the project's folder, after a build:
    python test/reference/check_fp8.py
"""
import json, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig, logging

logging.disable_progress_bar()
logging.set_verbosity_error()

SIZES = dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=64, vocab_size=160)
FAMILIES = {
    "llama": LlamaConfig(**SIZES, intermediate_size=384),
    "qwen3_moe": Qwen3MoeConfig(**SIZES, intermediate_size=384, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2),
}
CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"


def layergraft(*args):
    subprocess.run(["node", CLI, *map(str, args)], check=True, capture_output=True)


def stored(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            tensors |= {name: f.get_tensor(name) for name in f.keys()}
    return tensors


def encode(values, scale):
    """As compressed-tensors does in float32: each value over the scale of its block, rounded by PyTorch."""
    down, across = (-(-v // s) for v, s in zip(values.shape, scale.shape))
    full = scale.float().repeat_interleave(down, 0).repeat_interleave(across, 1)
    return (values / full[: values.shape[0], : values.shape[1]]).clamp(-448, 448).to(torch.float8_e4m3fn), full


def scales(values, like):
    blocks = values.abs().reshape(like.shape[0], -1, like.shape[1], values.shape[1] // like.shape[1])
    return (blocks.amax((1, 3)) / 448).to(like.dtype)


def compressed(folder, to):
    """The matrices of a folder as compressed-tensors stores them: a scale for each row."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    weights = dict(num_bits=8, type="float", symmetric=True, strategy="channel")
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))
    codec = BaseCompressor.get_value_from_registry("float-quantized")
    tensors = {}
    for name, value in stored(folder).items():
        if "_proj" not in name:
            tensors[name] = value
            continue
        scale = (value.float().abs().amax(1, True) / 448).to(torch.bfloat16)
        packed = codec.compress({"weight": value, "weight_scale": scale}, scheme)
        tensors |= {f"{name[:-len('weight')]}{part}": one.contiguous() for part, one in packed.items()}
    to.mkdir()
    save_file(tensors, to / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    activations = dict(num_bits=8, type="float", symmetric=True, strategy="token", dynamic=True)
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
    (to / "config.json").write_text(json.dumps(config))


failures = 0
with tempfile.TemporaryDirectory() as temporary:
    for family, config in FAMILIES.items():
        for form in ["blocks", "compressed"]:
            if (family, form) == ("qwen3_moe", "compressed"):
                continue
            root = Path(temporary) / f"{family}-{form}"
            root.mkdir()
            for seed in (1, 2):
                torch.manual_seed(seed)
                model = AutoModelForCausalLM.from_config(config)
                plain = root / f"plain{seed}"
                model.to(torch.bfloat16).save_pretrained(plain)
                if form == "compressed":
                    compressed(plain, root / f"fp8-{seed}")
                else:
                    layergraft("export", plain, "--format", "hf", "--type", "fp8", "--out", root / f"fp8-{seed}")
            models = [arg for seed in (1, 2) for arg in ("--model", root / f"fp8-{seed}")]
            layergraft("soup", *models, "--dtype", "fp8", "--allow-unrelated", "--out", root / "out")
            layergraft("soup", *models, "--dtype", "float32", "--allow-unrelated", "--out", root / "wide")
            out, wide = stored(root / "out"), stored(root / "wide")
            count = 0
            for name, value in wide.items():
                scale = next((out[name + s] for s in ("_scale_inv", "_scale") if name + s in out), None)
                if scale is None:
                    same = torch.equal(out[name], value.to(torch.bfloat16))
                else:
                    codes, full = encode(value, scale)
                    count += 1
                    same = torch.equal(out[name].view(torch.uint8), codes.view(torch.uint8)) and torch.equal(scale, scales(value, scale))
                    value = codes.float() * full
                if not same:
                    failures += 1
                    print(f"{family} {form}: {name} differs")
                wide[name] = value.to(torch.bfloat16)
            # The same values as a plain model.
            (root / "values").mkdir()
            save_file(wide, root / "values" / "model.safetensors", {"format": "pt"})
            settings = json.loads((root / "out" / "config.json").read_text())
            settings.pop("quantization_config")
            (root / "values" / "config.json").write_text(json.dumps(settings))
            ids = torch.arange(24).reshape(2, 12)
            opened = []
            for folder in ("out", "values"):
                model, info = AutoModelForCausalLM.from_pretrained(root / folder, dtype=torch.bfloat16, output_loading_info=True)
                problems = {kind: found for kind, found in info.items() if found}
                if problems:
                    failures += 1
                    print(f"{family} {form} {folder}: {problems}")
                with torch.no_grad():
                    opened.append(model(ids).logits.float())
            difference = (opened[0] - opened[1]).abs().max() / opened[1].abs().max()
            # Its inputs are rounded to FP8, too, token by token.
            failures += bool(difference > (0.1 if form == "compressed" else 0))
            print(f"{family} {form}: {count} matrices encoded, logits differ by {difference:.1e} of the largest")
sys.exit(1 if failures else 0)
