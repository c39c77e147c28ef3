"""A merge by mergekit: python methods_peer.py CONFIG OUT [--cuda]. A peer for the benchmarks only."""
import contextlib, os, resource, sys, types
from pathlib import Path

import pydantic

create_model = pydantic.create_model


def create_model_with_functions(name, /, *, __base__=None, **fields):
    """pydantic after 2.10 takes functions for fields, which mergekit means as methods."""
    methods = {k: v for k, v in fields.items() if isinstance(v, types.FunctionType)}
    made = create_model(name, __base__=__base__, **{k: v for k, v in fields.items() if k not in methods})
    return type(name, (made,), {**methods, "__module__": __name__}) if methods else made


pydantic.create_model = create_model_with_functions

import yaml
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions


def merge(config, out, *flags):
    with contextlib.redirect_stdout(sys.stderr):
        checked = MergeConfiguration.model_validate(yaml.safe_load(Path(config).read_text()))
        options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True, random_seed=1, cuda="--cuda" in flags)
        run_merge(checked, out, options)


if __name__ == "__main__":
    merge(*sys.argv[1:])
    if "PEAK_MEMORY_REPORT" in os.environ:
        Path(os.environ["PEAK_MEMORY_REPORT"]).write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
