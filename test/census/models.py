"""Makes tiny checkpoints and checks merges of them. Reads one request per line (JSON), answers in one line."""
import json
import os
import re
import sys
import time
import traceback
import warnings

os.environ.update(HF_HUB_OFFLINE="1", HF_DEACTIVATE_ASYNC_LOAD="1", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as TEXT,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as WRAPPERS,
)

from tiny import LAYERS, configuration

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
MOST_PARAMETERS = 6_000_000


def families():
    """Model types, with the class that opens them."""
    first = lambda names: names if isinstance(names, str) else names[0]
    text = [{"family": one, "class": first(name), "kind": "text"} for one, name in TEXT.items()]
    wrappers = [{"family": one, "class": first(name), "kind": "wrapper"} for one, name in WRAPPERS.items() if one not in TEXT]
    return text + wrappers


def build(family, name, extra=None):
    config = configuration(family, extra)
    kind = getattr(transformers, name)
    if kind.config_class is not None and not isinstance(config, kind.config_class):
        config = config.get_text_config(decoder=True)  # as AutoModelForCausalLM does
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in kind(config).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"has {size} parameters, too many for the census")
    torch.manual_seed(0)
    model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * 0.02)
    return model.float().eval()


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
        name: value + 0.01 * torch.randn(value.shape, generator=generator) if value.is_floating_point() else value.clone()
        for name, value in tensors.items()
    }


def tensors_of(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            found.update(load_file(f"{folder}/{name}"))
    return found


def make(family, kind, folder, **_):
    """Writes base, a and b."""
    name = kind
    model = build(family, name)
    model.save_pretrained(f"{folder}/base")
    tensors = tensors_of(f"{folder}/base")
    write_like(f"{folder}/a", f"{folder}/base", perturbed(tensors, 1))
    write_like(f"{folder}/b", f"{folder}/base", perturbed(tensors, 2))
    text = model.config.get_text_config(decoder=True)
    lists = layer_lists(model)
    return {
        "layers": getattr(text, "num_hidden_layers", None),
        "lists": [one for one, _ in lists],
        "parameters": sum(value.numel() for value in tensors.values()),
        "config": json.load(open(f"{folder}/base/config.json")),
    }


def layer_lists(model):
    return [(name, len(module)) for name, module in model.named_modules() if isinstance(module, torch.nn.ModuleList)]


TOWERS = re.compile(r"(^|\.)(vision|visual|image|audio|speech|mtp|multi_modal|mm_)")


def layer_of(name, lists):
    """Layer of a tensor: the first number in its name, after the name of a list of layers of the model."""
    found = re.search(r"(?:^|\.)([A-Za-z_]+)\.(\d+)\.", name)
    if not found or TOWERS.search(name) or found[1] not in lists:
        return None
    return int(found[2])


def open_model(kind, folder):
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    problems = {
        key: sorted(map(str, info[key])) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]
    }
    return model.eval(), problems


def logits(model):
    ids = torch.arange(3, 15).view(1, -1)
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits


def traits(module):
    """What a layer computes: plain attributes of its modules, but for its number."""
    return {
        f"{name}:{type(part).__name__}": {
            key: value
            for key, value in vars(part).items()
            if isinstance(value, (bool, int, float, str)) and key not in ("layer_idx", "layer_id", "layer_number")
            and not key.startswith("_")
        }
        for name, part in module.named_modules()
    }


def ties(base, experts, density):
    changes = [expert - base for expert in experts]
    kept = []
    for change in changes:
        count = int(density * change.numel())
        flat = change.abs().flatten()
        mask = torch.zeros_like(flat, dtype=torch.bool)
        mask[flat.topk(count).indices] = True
        kept.append(torch.where(mask.view(change.shape), change, 0))
    stack = torch.stack(kept)
    sign = torch.where(stack.sum(0) >= 0, 1.0, -1.0)
    agree = (stack * sign > 0).float()
    return base + (stack * agree).sum(0) / agree.sum(0).clamp(min=1)


def expected(recipe, sources, lists):
    """The tensors that a merge must have, by name."""
    a, b, base = (sources[one] for one in ("a", "b", "base"))
    average = lambda x, y: (x + y) / 2 if x.is_floating_point() else x
    if recipe == "soup":
        return {name: average(value, b[name]) for name, value in a.items()}
    if recipe == "ties":
        return {
            name: ties(base[name], [value, b[name]], 0.5) if value.is_floating_point() and value.numel() else value
            for name, value in a.items()
        }
    if recipe in ("swap", "transitions"):
        owners = {"swap": "baab", "transitions": "bxab"}[recipe]
        found = {}
        for name, value in a.items():
            layer = layer_of(name, lists)
            owner = "x" if layer is None else owners[layer]
            found[name] = {"a": value, "b": b[name]}.get(owner, average(value, b[name]))
        return found
    found = {}
    for name, value in a.items():
        layer = layer_of(name, lists)
        if layer is None:
            found[name] = None
    for place, (owner, layer) in enumerate([("a", 0), ("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)]):
        for name, value in sources[owner].items():
            if layer_of(name, lists) == layer:
                found[re.sub(rf"(?<=\.){layer}(?=\.)|^{layer}(?=\.)", str(place), name, count=1)] = value
    return found


def compare(recipe, want, have):
    problems = []
    lost, added = sorted(set(want) - set(have)), sorted(set(have) - set(want))
    if lost:
        problems.append(["lost", f"{len(lost)} tensors lost: {lost[:3]}"])
    if added:
        problems.append(["added", f"{len(added)} tensors added: {added[:3]}"])
    wrong = []
    for name in set(want) & set(have):
        if want[name] is None:
            continue
        same = torch.equal(want[name], have[name])
        if not same and not (recipe == "ties" and want[name].shape == have[name].shape and torch.allclose(want[name], have[name], rtol=1e-5, atol=1e-6)):
            wrong.append(name)
    if wrong:
        problems.append(["values", f"{len(wrong)} tensors have wrong values: {sorted(wrong)[:3]}"])
    return problems


def check(family, kind, folder, outs, layers, analysis=None, **_):
    """Problems of each output, as [kind, text]."""
    sources = {one: tensors_of(f"{folder}/{one}") for one in ("base", "a", "b")}
    model, known = open_model(kind, f"{folder}/a")
    lists = {name.split(".")[-1] for name, size in layer_lists(model) if size == layers}
    found = {"source": [["opens", f"{known}"]] if known else []}
    try:
        logits(model)
        runs = True
    except Exception as error:
        runs = False
        found["source"].append(["runs", f"{type(error).__name__}: {str(error)[:150]}"])
    for recipe, out in outs.items():
        problems = compare(recipe, expected(recipe, sources, lists), tensors_of(out))
        try:
            merged, info = open_model(kind, out)
            more = {key: sorted(set(value) - set(known.get(key, []))) for key, value in info.items()}
            if recipe == "stack":
                strip = lambda keys: {re.sub(r"\.\d+\.", ".N.", key) for key in keys}
                more = {key: [one for one in value if not strip([one]) <= strip(known.get(key, []))] for key, value in info.items()}
            more = {key: value[:4] for key, value in more.items() if value}
            if more:
                problems.append(["opens", f"{more}"])
            if recipe == "soup" and runs:
                other, _info = open_model(kind, f"{folder}/b")
                with torch.no_grad():
                    for mine, theirs in zip([*model.parameters(), *model.buffers()], [*other.parameters(), *other.buffers()]):
                        if mine.is_floating_point():
                            mine.copy_((mine + theirs) / 2)
                want, have = logits(model), logits(merged)
                off = ((want - have).abs().max() / want.abs().max()).item()
                if not off <= 1e-5:
                    problems.append(["logits", f"logits differ by {off:.2g} of the largest"])
            if recipe == "stack":
                plain, _info = open_model(kind, f"{folder}/base")
                for name, module in plain.named_modules():
                    if isinstance(module, torch.nn.ModuleList) and len(module) == layers and not TOWERS.search(name):
                        stacked = merged.get_submodule(name)
                        if len(stacked) != 6:
                            continue
                        for place, layer in enumerate([0, 1, 2, 1, 2, 3]):
                            mine, theirs = traits(stacked[place]), traits(module[layer])
                            if mine != theirs:
                                key = next(k for k in {**mine, **theirs} if mine.get(k) != theirs.get(k))
                                problems.append(["kind", f"layer {place} computes otherwise than layer {layer}: {key}: {mine.get(key)} {theirs.get(key)}"[:300]])
                                break
                if runs:
                    logits(merged)
        except Exception as error:
            problems.append(["opens", f"{type(error).__name__}: {str(error)[:200]}"])
        found[recipe] = problems
    if analysis is not None:
        norm = lambda tensors: sum(float((value.double() ** 2).sum()) for value in tensors.values()) ** 0.5
        floats = {name: value for name, value in sources["base"].items() if value.is_floating_point()}
        problems = []
        for one in ("a", "b"):
            change = norm({name: sources[one][name] - value for name, value in floats.items()}) / norm(floats)
            if abs(analysis[one] - change) > 1e-4 * change:
                problems.append(["values", f"relative norm of {one} is {analysis[one]}, not {change}"])
        found["analyze"] = problems
    return found


def main():
    for line in sys.stdin:
        request = json.loads(line)
        start = time.time()
        try:
            do = {"families": lambda **_: families(), "make": make, "check": check}[request["do"]]
            answer = {"ok": do(**{key: value for key, value in request.items() if key != "do"})}
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]} ({os.path.basename(where.filename)}:{where.lineno})"}
        answer["seconds"] = time.time() - start
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
