"""Runs mergekit and layergraft on the same configurations and prints how far the results are apart, method by method.

Not part of `npm test`. Needs torch, transformers, safetensors and mergekit 0.1.5 (on PYTHONPATH, or installed; a stand-in
for `immutables` is made if it is missing). Run from the project's folder, after a build:
    python test/reference/check_with_mergekit.py [name of a case] ...
"""
import sys, types

try:
    import immutables  # noqa: F401
except ImportError:
    stand_in = types.ModuleType("immutables")
    stand_in.Map = type("Map", (dict,), {"__hash__": lambda self: hash(frozenset(self.items()))})
    sys.modules["immutables"] = stand_in

import pydantic

create_model = pydantic.create_model


def create_model_with_functions(name, /, *, __base__=None, **fields):
    """pydantic after 2.10 takes functions for fields, which mergekit means as methods."""
    methods = {k: v for k, v in fields.items() if isinstance(v, types.FunctionType)}
    made = create_model(name, __base__=__base__, **{k: v for k, v in fields.items() if k not in methods})
    return type(name, (made,), {**methods, "__module__": __name__}) if methods else made


pydantic.create_model = create_model_with_functions

import json, os, shutil, subprocess, tempfile, warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import torch, yaml
from mergekit.config import MergeConfiguration
from mergekit.io.tasks import LoaderCache
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, MistralConfig, PreTrainedTokenizerFast, logging

logging.disable_progress_bar()
logging.set_verbosity_error()

CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"
LAYERS = 6
CONFIG = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=LAYERS,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=160,
    tie_word_embeddings=False,
)
MODELS = ["base", "a", "b", "c"]


def models(*entries):
    return {"models": [{"model": name, **({"parameters": p} if p else {})} for name, p in entries]}


def slices(*rows, **more):
    return {
        "slices": [
            {"sources": [{"model": m, "layer_range": list(r), **({"parameters": p} if p else {})} for m, r, p in row]}
            for row in rows
        ],
        **more,
    }


def task(method, *, common=None, **own):
    """Two experts with weights of their own, on the base."""
    entries = models(("a", {"weight": 0.7, **own}), ("b", {"weight": 0.45, **own}), ("base", None))
    return {"merge_method": method, "base_model": "base", **entries, **({"parameters": common} if common else {})}


def token_models(**tokenizer):
    entries = models(("t1", {"weight": 0.6}), ("t2", {"weight": 0.7}))
    return {"merge_method": "linear", "base_model": "t1", **entries, "tokenizer": tokenizer}


GRADED = [{"filter": "self_attn", "value": [0, 0.5, 0.3, 1]}, {"filter": "mlp", "value": [1, 0.2]}, {"value": 0.5}]
HALF = [("base", (0, 3), None), ("a", (0, 3), {"weight": 1}), ("b", (0, 3), {"weight": [0.2, 1]})]
REST = [("base", (3, 6), None), ("a", (3, 6), {"weight": 0.5}), ("c", (3, 6), {"weight": 0.25})]
CASES = {
    "linear": {"merge_method": "linear", **models(("a", {"weight": 1.0}), ("b", {"weight": 0.3}), ("c", {"weight": 0.5}))},
    "linear, not normalized": {
        "merge_method": "linear",
        **models(("a", {"weight": 0.6}), ("b", {"weight": [0.3, 0.9, 0.1]}), ("c", {"weight": -0.2})),
        "parameters": {"normalize": False},
    },
    "linear, base counted": {
        "merge_method": "linear",
        "base_model": "base",
        **models(("a", None), ("b", {"weight": [{"filter": "lm_head", "value": 2}, {"filter": "norm", "value": [0, 1]}]})),
        "parameters": {"weight": [{"filter": "mlp", "value": [0.1, 0.2, 0.7]}, {"filter": "*", "value": 1}]},
    },
    "layer swap as linear": {
        "merge_method": "linear",
        **models(
            ("a", {"weight": [{"filter": "embed_tokens", "value": 0.5}, {"filter": "lm_head", "value": 0.5}, {"value": [0, 0, 1, 1, 1, 0]}]}),
            ("b", {"weight": [{"filter": "embed_tokens", "value": 0.5}, {"filter": "lm_head", "value": 0.5}, {"value": [1, 1, 0, 0, 0, 1]}]}),
        ),
    },
    "slerp": {"merge_method": "slerp", "base_model": "a", **models(("b", None), ("a", None)), "parameters": {"t": 0.37}},
    "slerp, graded": {
        "merge_method": "slerp",
        "base_model": "a",
        **slices([("a", (0, 6), None), ("b", (0, 6), None)]),
        "parameters": {"t": GRADED},
    },
    "slerp in slices": {
        "merge_method": "slerp",
        "base_model": "b",
        **slices(
            [("a", (0, 2), None), ("b", (0, 2), None)],
            [("b", (1, 5), None)],
            [("a", (2, 6), None), ("b", (1, 5), None)],
            [("b", (5, 6), None), ("a", (5, 6), None)],
        ),
        "parameters": {"t": GRADED},
    },
    "nuslerp": {"merge_method": "nuslerp", **models(("a", {"weight": 0.8}), ("b", {"weight": [0.2, 1]}))},
    "nuslerp on base": {"merge_method": "nuslerp", "base_model": "base", **models(("a", {"weight": 0.8}), ("b", {"weight": 0.5}))},
    "nuslerp by rows": {
        "merge_method": "nuslerp",
        **models(("a", {"weight": 0.8}), ("b", {"weight": 0.5})),
        "parameters": {"nuslerp_flatten": False},
    },
    "nuslerp by columns": {
        "merge_method": "nuslerp",
        **models(("a", {"weight": 0.8}), ("b", {"weight": [0.5, 2]})),
        "parameters": {"nuslerp_flatten": False, "nuslerp_row_wise": True},
    },
    "nuslerp by columns on base": {
        "merge_method": "nuslerp",
        "base_model": "base",
        **models(("a", {"weight": 0.8}), ("b", {"weight": 0.5})),
        "parameters": {"nuslerp_flatten": False, "nuslerp_row_wise": True},
    },
    "linear, normalized in some": {
        "merge_method": "linear",
        **models(("a", {"weight": 0.6}), ("b", {"weight": 0.7})),
        "parameters": {"normalize": [{"filter": "mlp", "value": [0, 1]}, {"filter": "lm_head", "value": False}, {"value": True}]},
    },
    "task_arithmetic, normalized in some": task("task_arithmetic", common={"normalize": [0, 0, 1]}),
    "ties, normalized and rescaled in some": task(
        "ties", density=0.5, common={"normalize": {"filter": "mlp", "value": False}, "rescale": [{"filter": "self_attn", "value": [0, 1]}]}
    ),
    "breadcrumbs, rescaled in some": task("breadcrumbs", density=0.6, gamma=0.02, common={"rescale": [1, 0, 0]}),
    "dare_linear, rescaled in some": task("dare_linear", density=0.6, common={"rescale": [{"filter": "mlp", "value": False}]}),
    "other family": {
        "merge_method": "linear",
        "models": [
            {"model": "a", "parameters": {"weight": 0.6}},
            {"model": {"model": "mistral", "override_architecture": "LlamaForCausalLM"}, "parameters": {"weight": 0.7}},
        ],
    },
    "passthrough of other depths": {
        "merge_method": "passthrough",
        **slices([("a", (0, 4), None)], [("deep", (3, 8), None)], [("b", (5, 6), None)]),
    },
    "slerp of other depths": {
        "merge_method": "slerp",
        "base_model": "a",
        **slices([("a", (0, 6), None), ("deep", (1, 7), None)]),
        "parameters": {"t": [0.2, 0.7]},
    },
    "union of tokens": token_models(source="union"),
    "tokens of one": token_models(source="base"),
    "rows of tokens": token_models(
        source="union",
        tokens={
            "<end>": {"source": {"kind": "model_token", "model": "t1", "token": "t3"}},
            "<pad>": {"source": "t2", "force": True},
            "t5": {"source": {"kind": "model_token", "model": "t2", "token_id": 9}, "force": True},
            "t6": {"source": {"kind": "zero"}, "force": True},
            "<new>": {"source": {"kind": "zero"}},
        },
    ),
    "rows in multiples": token_models(source="t2", pad_to_multiple_of=64, tokens={"<new>": {"source": {"kind": "model_token", "model": "t1", "token": "t1"}}}),
    "union of tensors": {"merge_method": "linear", "arguments": ["--tensor-union"], **models(("x1", {"weight": 0.6}), ("x2", {"weight": 0.7}), ("a", {"weight": 0.4}))},
    "union of changed tensors": {
        **task("task_arithmetic"),
        "arguments": ["--tensor-union"],
        **models(("a", {"weight": 0.6}), ("b", {"weight": 0.7})),
        "base_model": "x1",
    },
    "intersection of tensors": {"merge_method": "ties", "base_model": "base", "arguments": ["--tensor-intersection"], **models(("x1", {"weight": 0.6, "density": 1}), ("x2", {"weight": 0.7, "density": 1}))},
    "task_arithmetic": task("task_arithmetic", common={"lambda": 0.8, "int8_mask": True}),
    "task_arithmetic, normalized": task("task_arithmetic", common={"normalize": True, "lambda": [1, 0.2]}),
    "task_arithmetic in slices": {"merge_method": "task_arithmetic", "base_model": "base", **slices(HALF, REST)},
    "ties": task("ties", density=0.5),
    "ties, all kept": task("ties"),
    "ties, graded": task("ties", density=[1, 0.4, 0.2], common={"normalize": False, "lambda": 1.3}),
    "ties in slices": {"merge_method": "ties", "base_model": "base", **slices(HALF, REST), "parameters": {"density": [0.3, 0.8]}},
    "ties, rescaled": task("ties", density=0.5, common={"rescale": True}),
    "ties, one mapping": task("ties", density={"filter": "mlp", "value": 0.5}),
    "dare_linear": task("dare_linear", density=0.6),
    "dare_linear, not rescaled": task("dare_linear", density=0.6, common={"rescale": False}),
    "dare_ties": task("dare_ties", density=0.6),
    "dare, all kept": task("dare_ties", density=1),
    "breadcrumbs": task("breadcrumbs", density=0.6, gamma=0.02),
    "breadcrumbs, many at the top": task("breadcrumbs", density=0.6, gamma=0.5),
    "breadcrumbs_ties": task("breadcrumbs_ties", density=0.6, gamma=0.02),
    "breadcrumbs, none at the top": task("breadcrumbs", density=0.6, gamma=0),
    "breadcrumbs, rescaled": task("breadcrumbs", density=0.6, gamma=0.02, common={"rescale": True}),
    "della, not rescaled": task("della", density=0.6, epsilon=0.2, common={"rescale": False}),
    "della": task("della", density=0.6, epsilon=0.2),
    "della_linear": task("della_linear", density=0.6, epsilon=0.2),
    "model_stock": {"merge_method": "model_stock", "base_model": "base", **models(("a", None), ("b", None), ("c", None))},
    "model_stock by rows": {
        "merge_method": "model_stock",
        "base_model": "base",
        **models(("a", None), ("b", None), ("c", None)),
        "parameters": {"filter_wise": True},
    },
    "multislerp": {"merge_method": "multislerp", **models(("a", {"weight": 0.8}), ("b", {"weight": 0.5}), ("c", {"weight": 1}))},
    "multislerp on base": {
        "merge_method": "multislerp",
        "base_model": "base",
        **models(("a", {"weight": 0.8}), ("b", {"weight": [0.5, 1]}), ("c", {"weight": 1})),
        "parameters": {"normalize_weights": False},
    },
    "karcher": {"merge_method": "karcher", **models(("a", None), ("b", None), ("c", None))},
    "karcher, long": {
        "merge_method": "karcher",
        **models(("base", None), ("a", None), ("b", None), ("c", None)),
        "parameters": {"max_iter": 50, "tol": 1e-7},
    },
    "ram": {"merge_method": "ram", "base_model": "base", **models(("a", None), ("b", None), ("c", None)), "parameters": {"epsilon": 0.01}},
    "ramplus_tl": {
        "merge_method": "ramplus_tl",
        "base_model": "base",
        **models(("a", None), ("b", None), ("c", None)),
        "parameters": {"epsilon": 0.01, "r": 0.3, "alpha": 0.5},
    },
    "arcee_fusion": {"merge_method": "arcee_fusion", "base_model": "base", **models(("a", None))},
    "sce": {"merge_method": "sce", "base_model": "base", **models(("a", None), ("b", None), ("c", None))},
    "sce, selected": {
        "merge_method": "sce",
        "base_model": "base",
        **models(("a", None), ("b", None), ("c", None)),
        "parameters": {"select_topk": 0.3},
    },
    "nearswap": {"merge_method": "nearswap", "base_model": "a", **models(("b", None)), "parameters": {"t": 0.005}},
    "adapter": {"merge_method": "task_arithmetic", "base_model": "base", **models(("base+lora", {"weight": 0.5}), ("a", {"weight": 0.5}))},
    "passthrough": {
        "merge_method": "passthrough",
        **slices(
            [("a", (0, 4), None)],
            [("b", (2, 5), {"scale": [{"filter": "o_proj", "value": 0}, {"filter": "mlp", "value": [1, 0.5]}]})],
            [("a", (4, 6), {"scale": 2})],
        ),
    },
}
# Where mergekit computes in float32 both must agree; bfloat16 shows by how much its arithmetic is coarser.
DTYPES = {
    torch.float32: [{"dtype": "float32"}, {"dtype": "float32", "out_dtype": "bfloat16"}],
    torch.bfloat16: [{"dtype": "float32", "out_dtype": "bfloat16"}, {"dtype": "bfloat16"}],
}
RANDOM = ("dare_linear, rescaled in some", "della, not rescaled", "dare_linear", "dare_linear, not rescaled", "dare_ties", "della", "della_linear")


def make_models(folder, dtype):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**CONFIG))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    base = {name: p.detach().clone() for name, p in model.state_dict().items()}
    common = {name: torch.randn_like(p) * 0.01 for name, p in base.items()}
    for name in MODELS:
        if name != "base":
            model.load_state_dict({k: p + common[k] + torch.randn_like(p) * 0.01 for k, p in base.items()})
        model.to(dtype).save_pretrained(folder / name)
        model.to(torch.float32)
    for name, extra in (("x1", ["one", "both"]), ("x2", ["two", "both"])):
        tensors = {k: p + common[k] + torch.randn_like(p) * 0.01 for k, p in base.items()}
        tensors |= {f"extra.{n}.weight": torch.randn(8, 8) for n in extra}
        (folder / name).mkdir()
        save_file({k: p.to(dtype) for k, p in tensors.items()}, folder / name / "model.safetensors", {"format": "pt"})
        shutil.copy(folder / "base" / "config.json", folder / name)
    for name, config in (
        ("deep", LlamaConfig(**{**CONFIG, "num_hidden_layers": LAYERS + 2})),
        ("mistral", MistralConfig(**CONFIG, sliding_window=None)),
        ("t1", LlamaConfig(**{**CONFIG, "vocab_size": 151})),
        ("t2", LlamaConfig(**{**CONFIG, "vocab_size": 152})),
    ):
        torch.manual_seed(len(name) + config.vocab_size)
        AutoModelForCausalLM.from_config(config).to(dtype).save_pretrained(folder / name)
    for name, added in (("t1", ["<pad>"]), ("t2", ["<end>", "<pad>"])):
        tokenizer = Tokenizer(BPE({f"t{i}": i for i in range(150)}, []))
        tokenizer.add_special_tokens(added)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder / name)
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"]))
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn_like(p) * 0.05)
    adapted.save_pretrained(folder / "lora")


def stored(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            tensors |= {name: f.get_tensor(name) for name in f.keys()}
    return tensors


def spacing(tensor):
    """Distance of the representable numbers around a tensor's largest value."""
    largest = tensor.abs().max()
    return float(torch.nextafter(largest, torch.full_like(largest, float("inf"))) - largest)


def run(case, folder, out):
    config = folder / "case.yml"
    config.write_text(yaml.safe_dump(case, sort_keys=False))
    resolved = yaml.safe_load(config.read_text())
    theirs, ours = out / "theirs", out / "ours"
    arguments = resolved.pop("arguments", [])
    config.write_text(yaml.safe_dump(resolved, sort_keys=False))
    command = ["node", CLI, "merge", config, "--out", ours, "--quiet", "--allow-unrelated", *arguments]
    if arguments:  # of mergekit-pytorch, which takes files
        there = json.loads(json.dumps(resolved))
        for entry in there["models"]:
            entry["model"] += "/model.safetensors"
        if "base_model" in there:
            there["base_model"] += "/model.safetensors"
        (folder / "there.yml").write_text(yaml.safe_dump(there, sort_keys=False))
        tool = Path(sys.executable).with_name("mergekit-pytorch")
        done = subprocess.run([tool, "there.yml", theirs, *arguments], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr[-300:])
        subprocess.run(command, cwd=folder, check=True)
        return stored(theirs), stored(ours)
    merge = MergeConfiguration.model_validate(resolved)
    LoaderCache.loaders.clear()  # it goes by the models' names alone
    options = MergeOptions(
        **dict(copy_tokenizer=False, write_model_card=False, quiet=True, random_seed=1, clone_tensors=True),
        **dict(lora_merge_cache=str(out / "adapted"), lora_merge_dtype="float32"),
    )
    run_merge(merge, str(theirs), options)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    theirs, ours = stored(theirs), stored(ours)
    if "tokenizer" in case:  # rows without a token are zeros here, the mean there
        tokens = len(AutoTokenizer.from_pretrained(out / "theirs"))
        for tensors in (theirs, ours):
            for name in tensors:
                if "embed" in name or "lm_head" in name:
                    tensors[name] = tensors[name][:tokens]
    return theirs, ours


def compare(name, theirs, ours, base):
    if theirs.keys() != ours.keys():
        return f"other tensors: {sorted(theirs.keys() ^ ours.keys())[:5]}", True
    wrong = [t for t in ours if ours[t].dtype != theirs[t].dtype or ours[t].shape != theirs[t].shape]
    if wrong:
        return f"other dtypes or shapes: {wrong[:3]}", True
    if name in RANDOM:
        rows = []
        for tensors in (theirs, ours):
            delta = torch.cat([(tensors[t].double() - base[t].double()).flatten() for t in base])
            rows.append((float((delta == 0).double().mean()), float(delta.abs().mean()), float(delta.mean())))
        (z1, m1, b1), (z2, m2, b2) = rows
        return f"untouched {z1:.4f} / {z2:.4f}, mean |change| {m1:.6f} / {m2:.6f}, mean change {b1:+.1e} / {b2:+.1e}", False
    most, worst, apart, total, largest = 0.0, "-", 0, 0, 0.0
    for t in ours:
        difference = (theirs[t].double() - ours[t].double()).abs()
        if float(difference.max()) > most:
            most, worst = float(difference.max()), t
        apart += int((difference > 0).sum())
        total += difference.numel()
        largest = max(largest, float(difference.max()) / spacing(theirs[t]))
    where = f" in {worst}, {largest:.2g} units in the last place of its tensor's largest value" if most > 0 else ""
    return f"max |difference| {most:.2e}{where}; {apart} of {total} elements differ", False


def main():
    wanted = sys.argv[1:]
    failed = 0
    for stored_as in DTYPES:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make_models(folder, stored_as)
            os.chdir(folder)
            base = stored(folder / "base")
            for i, (name, case) in enumerate(CASES.items()):
                if wanted and name not in wanted:
                    continue
                for j, dtypes in enumerate(DTYPES[stored_as]):
                    if "arguments" in case and dtypes != {"dtype": "float32"}:
                        continue  # mergekit-pytorch has no out_dtype
                    try:
                        text, bad = compare(name, *run({**case, **dtypes}, folder, folder / f"out-{i}-{j}"), base)
                    except ValueError as error:
                        text, bad = f"mergekit refuses: {error}", False
                    failed += bad
                    print(f"{str(stored_as)[6:]}, {'; '.join(map(': '.join, dtypes.items()))}: {name}: {text}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
