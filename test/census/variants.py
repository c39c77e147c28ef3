"""Pairs of checkpoints of one model that differ in how they are stored, and PyTorch's own average of each pair."""
import json
import re

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as TEXT

from files import open_model, perturbed, tensors_of, write_like

#: Families whose published checkpoints have a block that predicts further tokens, behind the last layer or beside them.
BEHIND = ("deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa")
BESIDE = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")


def save(model, folder, seed, **options):
    """Writes a model with changed values."""
    model.save_pretrained(f"{folder}.plain", **options)
    write_like(folder, f"{folder}.plain", perturbed(tensors_of(f"{folder}.plain"), seed))


def heads(family, kind, folder, build):
    """A tied head beside one of its own."""
    tied, untied = (build(family, kind, {"tie_word_embeddings": flag}) for flag in (True, False))
    for model, name, seed in ((tied, "tied", 1), (untied, "untied", 2)):
        save(model, f"{folder}/{name}", seed)
    same = lambda model: model.get_input_embeddings().weight is model.get_output_embeddings().weight
    stored = [tensors_of(f"{folder}/{name}") for name in ("tied", "untied")]
    more = [stored[1][name] for name in stored[1] if name not in stored[0]]
    # More than the head can be shared, or something else.
    if not same(tied) or same(untied) or len(more) != 1 or not torch.equal(more[0], opened("untied", folder, kind).get_output_embeddings().weight):
        return None
    return {"models": ["tied", "untied"], "names": "untied", "opens": kind}


def experts(family, kind, folder, build):
    """All experts of a layer in one tensor, as transformers has them in memory, beside one tensor each."""
    model = build(family, kind)
    save(model, f"{folder}/single", 1)
    save(model, f"{folder}/fused", 2, save_original_format=False)
    single, fused = (set(tensors_of(f"{folder}/{name}")) for name in ("single", "fused"))
    if single == fused or not any(re.search(r"experts\.\d+\.", name) for name in single):
        return None
    return {"models": ["fused", "single"], "names": "single", "opens": kind}


def lora(family, kind, folder, build):
    """A LoRA adapter on all linear layers, beside a whole model."""
    from peft import LoraConfig, get_peft_model

    base, _ = open_model(kind, f"{folder}/base")
    model = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(f"{folder}/adapter")
    # What PEFT itself makes of it: opened again, it leaves out tensors whose names transformers changes twice.
    torch.save(model.merge_and_unload().state_dict(), f"{folder}/adapter/merged.pt")
    return {"models": ["base+adapter", "b"], "names": "base", "opens": kind}


def wrapper(family, kind, folder, build):
    """A multimodal wrapper beside a model of its text part alone."""
    whole, problems = open_model(kind, f"{folder}/a")
    config = whole.config.get_text_config(decoder=True)
    name = TEXT.get(config.model_type)
    if config is whole.config or name is None or problems or whole.config.is_encoder_decoder:
        return None
    config.tie_word_embeddings = whole.config.tie_word_embeddings
    text = getattr(transformers, name)(config)
    inner = within(whole, text)
    if inner is None:
        return None
    text.base_model.load_state_dict(inner.state_dict())
    text.get_output_embeddings().load_state_dict(whole.get_output_embeddings().state_dict())
    text.tie_weights()
    save(text, f"{folder}/text", 2)
    return {"models": ["a", "text"], "names": "a", "opens": kind, "other": name, "swap": True}


def within(whole, text):
    return next((module for module in whole.modules() if type(module) is type(text.base_model)), None)


def prediction(family, kind, folder, build):
    """A block that predicts further tokens, which follows the last layer in a swap."""
    if family not in BEHIND + BESIDE:
        return None
    width = 32
    for name, seed in (("a", 11), ("b", 12)):
        tensors = tensors_of(f"{folder}/{name}")
        last = {key: value for key, value in tensors.items() if re.search(r"layers\.3\.", key)}
        if family in BEHIND:
            block = {key.replace("layers.3.", "layers.4."): value.clone() for key, value in last.items()}
            at = next(iter(block)).split("layers.4.")[0] + "layers.4."
            more = {"eh_proj.weight": (width, 2 * width), "enorm.weight": (width,), "hnorm.weight": (width,),
                    "shared_head.norm.weight": (width,), "shared_head.head.weight": (64, width), "embed_tokens.weight": (64, width)}
            extra = {"num_nextn_predict_layers": 1}
        else:
            block = {re.sub(r"^.*layers\.3\.", "mtp.layers.0.", key): value.clone() for key, value in last.items()}
            at, extra = "mtp.", {}
            more = {"fc.weight": (width, 2 * width), "norm.weight": (width,), "pre_fc_norm_embedding.weight": (width,),
                    "pre_fc_norm_hidden.weight": (width,)}
        block.update({at + key: torch.ones(shape) for key, shape in more.items()})
        write_like(f"{folder}/{name}-block", f"{folder}/{name}", {**tensors, **perturbed(block, seed)}, extra)
    return {"models": ["a-block", "b-block"], "names": "a-block", "opens": kind, "swap": True}


VARIANTS = {"heads": heads, "experts": experts, "lora": lora, "wrapper": wrapper, "prediction": prediction}


def opened(source, folder, kind):
    base, _, adapter = source.partition("+")
    model = open_model(kind, f"{folder}/{base}")[0]
    if adapter:
        model.load_state_dict(torch.load(f"{folder}/{adapter}/merged.pt"))
    return model


def mean_into(target, other):
    theirs, seen = other.state_dict(), set()
    with torch.no_grad():
        for name, mine in target.state_dict().items():
            if mine.is_floating_point() and mine.data_ptr() not in seen:
                seen.add(mine.data_ptr())
                mine.copy_((mine + theirs[name]) / 2)


def reference(variant, folder):
    """PyTorch's own average of the two models of a variant."""
    x, y = variant["models"]
    kind = variant["opens"]
    if "other" in variant:
        target, other = opened(x, folder, kind), opened(y, folder, variant["other"])
        mean_into(within(target, other), other.base_model)
        mine, theirs = target.get_output_embeddings(), other.get_output_embeddings()
        if mine.weight is not target.get_input_embeddings().weight:
            mean_into(mine, theirs)
        return target
    # The second has a head of its own where the first ties it.
    target, other = opened(y, folder, kind), opened(x, folder, kind)
    mean_into(target, other)
    return target
