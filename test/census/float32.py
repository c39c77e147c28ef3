"""Writes which tensors transformers keeps in float32: src/formats/checkpoint/float32.json, and what it saves of each
family's tiny model in bfloat16 and float16, which the tests compare with, in test/fixtures/float32.json.

Run: python float32.py [FAMILY ...]        (torch 2.9, transformers 5.24; a CPU and no network)
"""
import json
import re
import sys
import tempfile
from pathlib import Path

import torch
import transformers

from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES as SEQUENCES

from models import build, families
from files import tensors_of

ROOT = Path(__file__).parents[2]


def starred(names):
    return sorted({re.sub(r"\.\d+(?=\.)", ".*", name) for name in names})


def patterns_of(listed, names, wanted, known):
    """
    Patterns of the wanted names in files beside those that are known: those of transformers, which are of names in memory,
    and the ends of names that no such pattern has, as in files they are others.
    """
    matched = lambda pattern: {name for name in names if re.search(pattern, name)}
    good = [pattern for pattern in listed if matched(pattern) <= wanted]
    for name in sorted(wanted):
        if not any(re.search(pattern, name) for pattern in [*known, *good]):
            *_, last = [part for part in re.split(r"\.\d+(?:\.|$)", name) if part]
            good.append(rf"(^|\.){re.escape(last)}(\.\d+)?$")
            assert matched(good[-1]) <= wanted, good[-1]
    return good


patterns, kept = {}, {}
chosen = sys.argv[1:]
sequences = [{"id": f"{one}:sequence", "family": one, "class": name} for one, name in SEQUENCES.items()]
for one in [*families(), *sequences]:
    if chosen and one["id"] not in chosen:
        continue
    try:
        model = build(one["family"], one["class"])
        model_type = model.config.model_type
        listed = {"bfloat16": sorted(model._keep_in_fp32_modules_strict), "float16": sorted(model._keep_in_fp32_modules)}
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(f"{folder}/float32")
            all_names = tensors_of(f"{folder}/float32")
            lists, found = {}, {}
            for dtype in ("bfloat16", "float16"):
                opened = type(model).from_pretrained(f"{folder}/float32", dtype=getattr(torch, dtype))
                opened.save_pretrained(f"{folder}/{dtype}")
                kept_names = {name for name, value in tensors_of(f"{folder}/{dtype}").items() if value.dtype == torch.float32}
                found[dtype] = starred(kept_names)
                lists[dtype] = patterns_of(listed[dtype], all_names, kept_names, lists.get("bfloat16", []))
            lists = {"always": lists["bfloat16"], "float16": lists["float16"]}
    except Exception as error:
        print(one["id"], type(error).__name__, str(error)[:100], flush=True)
        continue
    if not any(lists.values()):
        continue
    before = patterns.setdefault(model_type, {key: [] for key in lists})
    patterns[model_type] = {key: sorted({*before[key], *lists[key]}) for key in before}
    kept[one["id"]] = {"type": model_type, "tensors": starred(all_names), **found}
    print(one["id"], patterns[model_type], {key: len(value) for key, value in found.items()}, flush=True)

groups = {}
for model_type, lists in sorted(patterns.items()):
    groups.setdefault(json.dumps({key: value for key, value in lists.items() if value}), []).append(model_type)
lines = [json.dumps({"families": names, **json.loads(lists)}) for lists, names in groups.items()]
(ROOT / "src/formats/checkpoint/float32.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(kept.items())]
(ROOT / "test/fixtures/float32.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
