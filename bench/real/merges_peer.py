"""Merges by mergekit, and how far layergraft's tensors are from its own. A peer for the comparison only."""
import sys, types

import pydantic

create_model = pydantic.create_model


def create_model_with_functions(name, /, *, __base__=None, **fields):
    """pydantic after 2.10 takes functions for fields, which mergekit means as methods."""
    methods = {k: v for k, v in fields.items() if isinstance(v, types.FunctionType)}
    made = create_model(name, __base__=__base__, **{k: v for k, v in fields.items() if k not in methods})
    return type(name, (made,), {**methods, "__module__": __name__}) if methods else made


pydantic.create_model = create_model_with_functions

import contextlib, json
from importlib.metadata import version
from pathlib import Path

import yaml
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from safetensors import safe_open

given = json.load(sys.stdin)
with contextlib.redirect_stdout(sys.stderr):
    config = MergeConfiguration.model_validate(yaml.safe_load(Path(given["config"]).read_text()))
    run_merge(config, given["theirs"], MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True, random_seed=1))


def stored(folder):
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            for name in f.keys():
                yield name, f.get_tensor(name)


theirs = dict(stored(given["theirs"]))
elements = differing = 0
worst = 0.0
for name, ours in stored(given["ours"]):
    apart = (theirs.pop(name).double() - ours.double()).abs()
    elements, differing, worst = elements + apart.numel(), differing + int((apart > 0).sum()), max(worst, float(apart.max()))
assert not theirs, f"layergraft lacks {sorted(theirs)[:3]}"
print(json.dumps({"version": version("mergekit"), "elements": elements, "differing": differing, "worst": worst}))
