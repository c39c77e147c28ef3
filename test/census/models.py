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
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as TEXT,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as WRAPPERS,
)

from files import open_model, perturbed, tensors_of, write_like
import other
from renamings import renamings
from tiny import configuration
from variants import VARIANTS, reference

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
MOST_PARAMETERS = 30_000_000


def families():
    """Model types, with the class that opens them."""
    first = lambda names: names if isinstance(names, str) else names[0]
    text = [{"id": one, "family": one, "class": first(name)} for one, name in TEXT.items()]
    wrappers = [
        {"id": f"{one}:wrapper" if one in TEXT else one, "family": one, "class": first(name)}
        for one, name in WRAPPERS.items()
        if first(name) != TEXT.get(one)
    ]
    return text + wrappers


def opener(family, name, extra=None):
    """The class of a model, and its configuration: of the text part where the class is that of text alone."""
    kind, config = getattr(transformers, name), configuration(family, extra)
    text = config.get_text_config(decoder=True)
    if kind.config_class is not None and not isinstance(config, kind.config_class) and isinstance(text, kind.config_class):
        config = text  # as AutoModelForCausalLM does
    return kind, config


def build(family, name, extra=None):
    kind, config = opener(family, name, extra)
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


def names(family, kind, **_):
    """How the names of a family's tensors in files become those in memory."""
    model_class, config = opener(family, kind)
    with torch.device("meta"):
        model = model_class(config)
    return {"type": model.config.model_type, "renamings": renamings(model)}


def make(family, kind, folder, dtype="float32", **_):
    """Writes base, a and b."""
    name = kind
    model = build(family, name)
    model.to(getattr(torch, dtype)).save_pretrained(f"{folder}/base")
    tensors = tensors_of(f"{folder}/base")
    write_like(f"{folder}/a", f"{folder}/base", perturbed(tensors, 1))
    write_like(f"{folder}/b", f"{folder}/base", perturbed(tensors, 2))
    return {
        "layers": depth_of(model),
        "parameters": sum(value.numel() for value in tensors.values()),
        "config": json.load(open(f"{folder}/base/config.json")),
    }


TOWERS = re.compile(r"(^|[._])(vision|visual|vit|sam|qwen2_model|image|audio|speech|mtp|multi_modal|mm|vqmodel|qformer|perceiver|video|protein|sequence)|^blocks\.")

#: Names of lists of layers, in modules and in files of earlier versions.
LISTS = {"layers", "layer", "h", "block", "blocks"}


def layer_lists(model):
    """Lists of layers beside towers, with their sizes: more than one where the model has several stacks."""
    return {
        name: len(module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList)
        and name.split(".")[-1] in LISTS
        and not TOWERS.search(name)
        and not re.search(r"\.\d+\.", name)
    }


def depth_of(model):
    """Number of layers of the one stack; 0 if there are several, or none."""
    sizes = layer_lists(model)
    return next(iter(sizes.values())) if len(sizes) == 1 else 0


def layer_of(name):
    """Layer of a tensor: the first number in its name, after the name of a list of layers."""
    found = re.search(r"(?:^|\.)([A-Za-z_]+)\.(\d+)\.", name)
    return int(found[2]) if found and found[1] in LISTS and not TOWERS.search(name[: found.end()]) else None


def off(want, merged, out):
    """How far logits are from those wanted, as a share of the largest; 0 for a model that draws something at random."""
    have = logits(merged)
    share = ((want - have).abs().max() / want.abs().max()).item()
    embedding = merged.get_input_embeddings().weight
    is_loaded = any(value.shape == embedding.shape and torch.equal(value, embedding) for value in tensors_of(out).values())
    return share if share <= 1e-5 or is_loaded and torch.equal(have, logits(merged)) else 0


def logits(model):
    ids = torch.arange(3, 15).view(1, -1)
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits


KIND = re.compile(r"sliding|window|rope|layer_type|attention_type|block_type|is_|use_")


def traits(module):
    """What kind of layer it is: the classes of its modules, and their attributes that say how they attend."""
    return {
        f"{name}:{type(part).__name__}": {
            key: value
            for key, value in vars(part).items()
            if isinstance(value, (bool, int, float, str)) and KIND.search(key) and not key.startswith("_")
        }
        for name, part in module.named_modules()
    }


def ties(base, experts, density):
    changes = [expert - base for expert in experts]
    kept = []
    for change in changes:
        count = int(density * change.numel())
        flat = change.abs().flatten()
        mask = flat >= flat.topk(count).values.min() if count else torch.zeros_like(flat, dtype=torch.bool)
        kept.append(torch.where(mask.view(change.shape), change, 0))
    stack = torch.stack(kept)
    sign = torch.where(stack.sum(0) >= 0, 1.0, -1.0)
    agree = (stack * sign > 0).float()
    return base + (stack * agree).sum(0) / agree.sum(0).clamp(min=1)


def expected(recipe, sources):
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
            layer = layer_of(name)
            owner = "x" if layer is None else owners[layer]
            found[name] = {"a": value, "b": b[name]}.get(owner, average(value, b[name]))
        return found
    found = {}
    for name, value in a.items():
        layer = layer_of(name)
        if layer is None:
            found[name] = None
    for place, (owner, layer) in enumerate([("a", 0), ("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)]):
        for name, value in sources[owner].items():
            if layer_of(name) == layer:
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
    found = {"source": [["opens", f"{known}"]] if known else []}
    try:
        logits(model)
        runs = True
    except Exception as error:
        runs = False
        found["source"].append(["runs", f"{type(error).__name__}: {str(error)[:150]}"])
    for recipe, out in outs.items():
        problems = compare(recipe, expected(recipe, sources), tensors_of(out))
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
                share = off(logits(model), merged, out)
                if not share <= 1e-5:
                    problems.append(["logits", f"logits differ by {share:.2g} of the largest"])
            if recipe == "stack":
                plain, _info = open_model(kind, f"{folder}/base")
                for name, size in layer_lists(plain).items():
                    if size == layers:
                        module = plain.get_submodule(name)
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


def compare_exactly(family, kind, folder, out, method, program, **_):
    """Tensors lost and added, how far values are from those in float64, and whether transformers opens the merge."""
    sources = {one: tensors_of(f"{folder}/{one}") for one in ("base", "a", "b")}
    have = tensors_of(out)
    want = expected("stack", {**sources, "b": sources["a"]}) if method == "stack" else sources["a"]
    found = {"types": sum(have[name].dtype != value.dtype for name, value in want.items() if value is not None and name in have)}
    try:
        merged, info = open_model(kind, out)
        _model, known = open_model(kind, f"{folder}/a")
        strip = lambda keys: {re.sub(r"\.\d+\.", ".N.", key) for key in keys}
        found["opens"] = all(strip(value) <= strip(known.get(key, [])) for key, value in info.items())
        if found["opens"] and set(have) != set(want):  # other names for the same, such as experts in one tensor
            named = {name: (sources["a"][name] if value is None else value).clone() for name, value in want.items()}
            write_like(f"{out}/named", out, named)
            carrier, _info = open_model(kind, f"{out}/named")
            carrier.load_state_dict(merged.state_dict())
            carrier.save_pretrained(f"{out}/again")
            have = tensors_of(f"{out}/again")
        if found["opens"] and method == "stack":
            found["opens"] = same_kinds(kind, folder, merged)
    except Exception as error:
        found["opens"], found["because"] = False, f"{type(error).__name__}: {str(error)[:200]}"
    found.update(lost=len(set(want) - set(have)), added=len(set(have) - set(want)))
    if method != "stack":
        return {**found, **other.deviation(method, sources, have, is_by_model=program == "fusion_bench")}
    shared = {name: value for name, value in want.items() if value is not None and name in have}
    differ = sum(value.shape != have[name].shape or int((value != have[name]).sum()) for name, value in shared.items())
    return {**found, "differ": differ, "of": sum(value.numel() for value in shared.values()), "worst": 0}


def same_kinds(kind, folder, merged):
    """Whether each layer of a stack computes as the layer that it is a copy of."""
    plain, _info = open_model(kind, f"{folder}/base")
    lists = [name for name, size in layer_lists(plain).items() if size == 4]
    pairs = [(merged.get_submodule(name), plain.get_submodule(name)) for name in lists]
    return all(
        len(stacked) == len(other.STACK) and all(traits(stacked[i]) == traits(layers[k]) for i, k in enumerate(other.STACK))
        for stacked, layers in pairs
    )


def make_variants(family, kind, folder, **_):
    """The variants that the family has; those of which it has no other kind are left out."""
    found = {}
    for name, write in VARIANTS.items():
        try:
            variant = write(family, kind, folder, build)
        except Exception as error:
            variant = {"unmade": f"{type(error).__name__}: {str(error)[:150]}"}
        if variant:
            found[name] = variant
    return found


def check_variants(folder, variants, **_):
    """Problems of the merged variants, by name."""
    found = {}
    for name, variant in variants.items():
        problems = []
        wanted, have = tensors_of(f"{folder}/{variant['names']}"), tensors_of(variant["out"])
        problems += compare("names", dict.fromkeys(wanted), have)
        try:
            merged, info = open_model(variant["opens"], variant["out"])
            _model, known = open_model(variant["opens"], f"{folder}/{variant['names']}")
            if info != known:
                problems.append(["opens", f"{info}"])
            model = reference(variant, folder)
            try:
                want = logits(model)
            except Exception:  # it takes more than text
                want = None
            share = 0 if want is None else off(want, merged, variant["out"])
            if not share <= 1e-5:
                problems.append(["logits", f"logits differ by {share:.2g} of the largest"])
            if "swapped" in variant:
                swapped = tensors_of(variant["swapped"])
                problems += compare("names", dict.fromkeys(wanted), swapped)
                _model, info = open_model(variant["opens"], variant["swapped"])
                if info != known:
                    problems.append(["opens", f"after a swap: {info}"])
                if name == "prediction":
                    theirs = tensors_of(f"{folder}/b-block")
                    wrong = [key for key in theirs if re.search(r"layers\.4\.|^mtp\.", key) and not torch.equal(theirs[key], swapped[key])]
                    if wrong:
                        problems.append(["values", f"the block is not that of the last layer's model: {wrong[:2]}"])
        except Exception as error:
            problems.append(["opens", f"{type(error).__name__}: {str(error)[:200]}"])
        found[name] = problems
    return found


def main():
    for line in sys.stdin:
        request = json.loads(line)
        start = time.time()
        try:
            do = {"families": lambda **_: families(), "names": names, "make": make, "check": check,
                  "make variants": make_variants, "check variants": check_variants,
                  "merge with": other.merge_with, "compare exactly": compare_exactly, "versions": other.versions}[request["do"]]
            answer = {"ok": do(**{key: value for key, value in request.items() if key != "do"})}
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]} ({os.path.basename(where.filename)}:{where.lineno})"}
        answer["seconds"] = time.time() - start
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
