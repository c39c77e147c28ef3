"""Checks mixtures of `layergraft merge`: rows of the router against mergekit's own and against transformers in float32; mixtures of
equal experts have the dense model's logits; each kind opens in transformers and generates; verify finds them identical.
DeepSeek's code is not in transformers, so its weights load, strictly, into a Llama with the layer of arXiv 2401.06066.

Not part of `npm test`. Needs torch, transformers and mergekit 0.1.5. Run from the project's folder, after a build:
    python test/reference/check_mixtures.py [mergekit-moe]
"""
import json, shutil, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, MistralConfig
from transformers import Qwen2Config, Qwen3Config, logging
from transformers.models.llama.modeling_llama import LlamaMLP

logging.disable_progress_bar()
logging.set_verbosity_error()
ROOT = Path(__file__).resolve().parents[2]
MERGEKIT = sys.argv[1] if len(sys.argv) > 1 else "mergekit-moe"
LG = ["node", str(ROOT / "dist/cli/main.js")]
PROMPTS = [(["Tom had nine apples. Tom sold seven apples.", "Solve:"], ["Asha alikuwa na ndizi tisa."]),
           (["Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?"], [])]


def run(*args, cwd):
    done = subprocess.run([*map(str, args)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def config(mode, models=("math-expert", "swahili-expert"), shared=None, **more):
    experts = [dict(source_model=m, positive_prompts=p, negative_prompts=n) for m, (p, n) in zip(models, PROMPTS)]
    whole = dict(base_model="base", gate_mode=mode, dtype="float32", experts=experts, **more)
    return {**whole, "shared_experts": [shared]} if shared else whole


def router(folder, name):
    tensors = load_file(f"{folder}/model.safetensors")
    return torch.stack([tensors[f"model.layers.{i}.{name}.gate.weight"].double() for i in range(8)])


def rows(model, tokenizer, mode):
    """[layers, experts, width] in float32, one prompt at a time."""
    def mean(texts):
        total = 0
        for text in texts:
            ids = tokenizer((tokenizer.bos_token or "") + text, return_tensors="pt", add_special_tokens=False).input_ids
            with torch.no_grad():
                states = torch.stack(model(ids, output_hidden_states=True).hidden_states[:-1])[:, 0].double()
            total = total + (states[:, -1] if mode == "hidden" else states.mean(1)) / len(texts)
        return total
    found = [mean(p) - (mean(n) if n else 0) for p, n in PROMPTS]
    return torch.stack([x / x.norm(dim=-1, keepdim=True) for x in found], 1)


class DeepSeekLayer(torch.nn.Module):
    """h = sum of shared experts + sum of g_i expert_i over the top k of softmax(gate x), g normalised."""

    def __init__(self, config, sizes):
        super().__init__()
        self.k = sizes["num_experts_per_tok"]
        self.gate = torch.nn.Linear(config.hidden_size, sizes["n_routed_experts"], bias=False)
        self.experts = torch.nn.ModuleList(LlamaMLP(config) for _ in range(sizes["n_routed_experts"]))
        self.shared_experts = LlamaMLP(config) if sizes["n_shared_experts"] else None

    def forward(self, x):
        share, which = self.gate(x).softmax(-1).topk(self.k)
        share = share / share.sum(-1, keepdim=True)
        parts = torch.stack([expert(x) for expert in self.experts], -2)
        chosen = parts.gather(-2, which[..., None].expand(*which.shape, x.shape[-1]))
        y = (share[..., None] * chosen).sum(-2)
        return y + self.shared_experts(x) if self.shared_experts else y


def open_deepseek(place, config):
    model = LlamaForCausalLM(config)
    sizes = json.loads((place / "config.json").read_text())
    assert sizes["model_type"] == "deepseek" and sizes["moe_intermediate_size"] == config.intermediate_size
    for layer in model.model.layers:
        layer.mlp = DeepSeekLayer(config, sizes)
    model.load_state_dict(load_file(place / "model.safetensors"), strict=True)
    return model


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    run(*LG, "example", folder / "world", cwd=ROOT)
    world = folder / "world"
    base = AutoModelForCausalLM.from_pretrained(world / "base", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(world / "base")

    def make(name, wanted):
        (world / f"{name}.yml").write_text(json.dumps(wanted))
        run(*LG, "merge", f"{name}.yml", "--out", name, cwd=world)
        run(*LG, "verify", name, cwd=world)
        run(*LG, "inspect", name, cwd=world)
        return world / name

    for mode in ("cheap_embed", "hidden", "hidden_avg"):
        ours = router(make(mode, config(mode)), "block_sparse_moe")
        run(MERGEKIT, f"{mode}.yml", f"mergekit-{mode}", cwd=world)
        theirs = router(world / f"mergekit-{mode}", "mlp")
        difference = (ours - theirs).abs().max().item()
        cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=-1).min().item()
        exact = "" if mode == "cheap_embed" else f", from transformers in float32 {(ours - rows(base, tokenizer, mode)).abs().max():.1e}"
        print(f"{mode}: largest difference from mergekit {difference:.1e}, smallest cosine {cosine:.6f}{exact}")
        assert difference < (1e-6 if mode == "cheap_embed" else 0.02 if mode == "hidden" else 1)
        weights, other = load_file(f"{world}/{mode}/model.safetensors"), load_file(f"{world}/mergekit-{mode}/model.safetensors")
        same = [k for k in weights if k in other and k.find("gate.weight") < 0]
        assert all(torch.equal(weights[k], other[k]) for k in same) and len(same) == 8 * 6 + 3, len(same)

    # Families: a mixture of copies is the dense model.
    sizes = dict(vocab_size=730, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=128)
    cases = {
        "mixtral of llama": (LlamaConfig(**sizes, tie_word_embeddings=False), {}, None),
        "mixtral of tied llama": (LlamaConfig(**sizes, tie_word_embeddings=True), {}, None),
        "mixtral of mistral": (MistralConfig(**sizes, sliding_window=None), {}, None),
        "qwen of qwen2": (Qwen2Config(**sizes, tie_word_embeddings=True), {}, "shared"),
        "qwen of llama": (LlamaConfig(**sizes), {"architecture": "qwen"}, "shared"),
        "qwen of qwen3": (Qwen3Config(**sizes, head_dim=16), {}, None),
        "deepseek of llama": (LlamaConfig(**sizes), {"architecture": "deepseek"}, None),
        "deepseek of llama, shared": (LlamaConfig(**sizes), {"architecture": "deepseek"}, "shared"),
    }
    ids = torch.arange(24)[None] * 5 % 730
    for name, (family, more, shared) in cases.items():
        torch.manual_seed(1)
        dense = AutoModelForCausalLM.from_config(family).eval()
        for p in dense.parameters():
            p.data += 0.05 * torch.randn_like(p)
        place = world / name.replace(" ", "-").replace(",", "")
        dense.save_pretrained(place / "model")
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(world / "base" / file, place / "model" / file)
        wanted = dict(base_model="model", gate_mode="random", experts=[dict(source_model="model")] * 3, **more)
        if shared:
            wanted["shared_experts"] = [dict(source_model="model", residual_scale=0.0)]
        (place / "c.yml").write_text(json.dumps(wanted))
        run(*LG, "merge", "c.yml", "--out", "out", cwd=place)
        run(*LG, "verify", "out", cwd=place)
        if "deepseek" in name:
            model = open_deepseek(place / "out", family)
        else:
            model, notes = AutoModelForCausalLM.from_pretrained(place / "out", output_loading_info=True)
            assert not any(notes[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), notes
        with torch.no_grad():
            error = (model.eval()(ids).logits - dense(ids).logits).abs().max().item()
            spread = dense(ids).logits.std().item()
        text = model.generate(ids[:, :4], max_new_tokens=8, do_sample=False)
        assert text.shape == (1, 12) and error < 1e-4 * spread, (name, error)
        print(f"{name}: opens and generates; logits differ from the dense model's by at most {error:.1e} (spread {spread:.2f})")
