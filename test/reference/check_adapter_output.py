"""Checks that PEFT opens the adapters that `--as adapter` writes: logits of base plus adapter against the merged model's.
Adapters that save no tensor whole are also added as vLLM does, which reads lora_alpha / r and no pattern.

Not part of `npm test`. Needs torch, transformers, peft and safetensors. Run from the project's folder, after a build:
    python test/reference/check_adapter_output.py
"""
import json, subprocess, tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config, logging

logging.disable_progress_bar()
logging.set_verbosity_error()
ROOT = Path(__file__).parents[2]
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=64, max_position_embeddings=64, initializer_range=0.2)
BASES = {
    "llama": LlamaConfig(**SIZES, tie_word_embeddings=False),
    "llama, tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=False),
}
IDS = torch.randint(64, (2, 12), generator=torch.Generator().manual_seed(0))


def logits(model):
    with torch.no_grad():
        return model.eval()(IDS).logits


def layergraft(*arguments):
    run = subprocess.run(["node", str(ROOT / "dist/cli/main.js"), *map(str, arguments), "--quiet"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def expert(base, folder, **settings):
    """An adapter with random factors, and with random values in what it saves whole."""
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    for name, parameter in model.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            parameter.data.normal_(0, 0.1)
    model.save_pretrained(folder)
    return f"{base}+{folder}"


def added_as_in_vllm(base, adapter):
    """Base plus (lora_alpha / r) B A for every module, or None where vLLM refuses the adapter."""
    config = json.loads((adapter / "adapter_config.json").read_text())
    if config["modules_to_save"] or config["bias"] != "none" or config["use_dora"] or config["fan_in_fan_out"]:
        return None
    model = AutoModelForCausalLM.from_pretrained(base)
    weights, factors = dict(model.named_parameters()), load_file(adapter / "adapter_model.safetensors")
    for name, a in factors.items():
        if ".lora_A." in name:
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            b = factors[name.replace(".lora_A.", ".lora_B.")]
            assert a.shape[0] <= config["r"], "vLLM has room for r"
            weights[f"{module}.weight"].data += config["lora_alpha"] / config["r"] * (b.float() @ a.float())
    return model


torch.manual_seed(0)
largest = 0
for family, config in BASES.items():
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        base = folder / "base"
        AutoModelForCausalLM.from_config(config).save_pretrained(base)
        saved = [] if config.tie_word_embeddings else ["lm_head", "model.norm"]
        task = expert(base, folder / "task", r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "up_proj"],
                      rank_pattern={"layers.1.self_attn.q_proj": 2}, alpha_pattern={"layers.2.mlp.up_proj": 11})
        language = expert(base, folder / "language", r=3, lora_alpha=5, use_rslora=True,
                          target_modules=["q_proj", "k_proj", "down_proj"], modules_to_save=saved or None)
        (folder / "arithmetic.yml").write_text(
            f"method: task_arithmetic\nmodels: ['{task}', {{model: '{language}', weight: 0.4}}]\nbase: '{base}'\nlambda: 0.7\n")
        cases = {
            "swap": ["swap", "--task", task, "--language", language, "--bottom", "1", "--top", "1"],
            "swap with transitions": ["swap", "--task", task, "--language", language, "--bottom", "1", "--top", "1",
                                      "--bottom-transition", "1", "--weights", "1,3"],
            "soup": ["soup", "--model", f"{task}=0.3", "--model", f"{language}=0.7"],
            "task arithmetic": ["merge", folder / "arithmetic.yml"],
            "revert": ["revert", "--expert", language, "--base", base, "--layers", "0-1"],
        }
        plain = logits(AutoModelForCausalLM.from_pretrained(base))
        for name, command in cases.items():
            merged, adapter = folder / f"{name} merged", folder / f"{name} adapter"
            layergraft(*command, "--out", merged)
            layergraft(*command, "--out", adapter, "--as", "adapter")
            wanted = logits(AutoModelForCausalLM.from_pretrained(merged))
            found = logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter))
            error, change = (found - wanted).abs().max().item(), (wanted - plain).abs().max().item()
            assert error <= 1e-5 * max(1, wanted.abs().max().item()) and change > 0.1, (family, name, error, change)
            served = added_as_in_vllm(base, adapter)
            other = None if served is None else (logits(served) - wanted).abs().max().item()
            assert other is None or other <= 1e-5 * max(1, wanted.abs().max().item()), (family, name, other)
            largest = max(largest, error, other or 0)
            sizes = [sum(f.stat().st_size for f in path.glob("*.safetensors")) for path in (merged, adapter)]
            vllm = "refused by vLLM" if other is None else f"as in vLLM {other:.1e}"
            print(f"ok  {family}, {name}: error {error:.1e}, {vllm}, where the merge changes {change:.1e}; "
                  f"{sizes[0]} bytes merged, {sizes[1]} as an adapter")
print(f"largest difference of logits: {largest:.1e}")
