"""The merges of bench/head-to-head.js by mergekit and fusion_bench, and how far a merge is from the exact one."""
import os
import resource
import sys
import time

import torch

from files import tensors_of

#: Layers of `a` in the stack, the same for all programs: fusion_bench stacks layers of one model only.
STACK = [0, 1, 2, 1, 2, 3]

#: What mergekit calls each method of the comparison.
MERGEKIT = {
    "soup": ("linear", {}),
    "task arithmetic": ("task_arithmetic", {"lambda": 0.5}),
    "TIES": ("ties", {"density": 0.5}),
    "SLERP": ("slerp", {"t": 0.5}),
}


def configuration(method, folder):
    """mergekit's configuration of a method."""
    if method == "stack":
        ranges = [[0, 3], [1, 4]]
        slices = [{"sources": [{"model": f"{folder}/a", "layer_range": layers}]} for layers in ranges]
        return {"merge_method": "passthrough", "slices": slices}
    name, parameters = MERGEKIT[method]
    base = {"soup": {}, "SLERP": {"base_model": f"{folder}/a"}}.get(method, {"base_model": f"{folder}/base"})
    weighted = [{"model": f"{folder}/{one}", "parameters": {} if method == "SLERP" else {"weight": 1}} for one in "ab"]
    return {"merge_method": name, **base, "models": weighted, "parameters": parameters}


def mergekit(method, folder, out, types):
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    checked = MergeConfiguration.model_validate({**configuration(method, folder), **types})
    run_merge(checked, out, MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True))


def fusion_bench(method, folder, out, kind):
    from fusion_bench.method import (
        DepthUpscalingForLlama,
        SimpleAverageForCausalLM,
        SlerpForCausalLM,
        TaskArithmeticForCausalLM,
        TiesMergingForCausalLM,
    )
    from fusion_bench.modelpool import CausalLMPool

    opened = lambda name: {
        "_target_": f"transformers.{kind}.from_pretrained",
        "pretrained_model_name_or_path": f"{folder}/{name}",
    }
    models = {name: opened(name) for name in ("a" if method == "stack" else "ab")}
    if method in ("task arithmetic", "TIES"):
        models["_pretrained_"] = opened("base")
    algorithm = {
        "soup": lambda: SimpleAverageForCausalLM(),
        "task arithmetic": lambda: TaskArithmeticForCausalLM(scaling_factor=0.5),
        "TIES": lambda: TiesMergingForCausalLM(scaling_factor=1, threshold=0.5, remove_keys=[], merge_func="mean"),
        "SLERP": lambda: SlerpForCausalLM(t=0.5),
        "stack": lambda: DepthUpscalingForLlama(layer_indices=STACK, model_save_path=None),
    }[method]()
    algorithm.run(CausalLMPool(models=models, tokenizer=None)).save_pretrained(out)


PROGRAMS = {
    "mergekit": lambda method, folder, out, kind, dtype: mergekit(method, folder, out, {"dtype": dtype}),
    "mergekit, dtype: float32": lambda method, folder, out, kind, dtype: mergekit(
        method, folder, out, {"dtype": "float32", "out_dtype": dtype}
    ),
    "fusion_bench": lambda method, folder, out, kind, dtype: fusion_bench(method, folder, out, kind),
}


def merge_with(program, method, folder, out, kind, dtype="float32", **_):
    """Merges, and says how many seconds it took."""
    start = time.perf_counter()
    PROGRAMS[program](method, folder, out, kind, dtype)
    return time.perf_counter() - start


def exact(method, sources, is_by_model):
    """The merge in float64, with a mask of what a rule leaves open: changes at a threshold, and elections without a winner."""
    a, b, base = (sources[one] for one in ("a", "b", "base"))
    floats = {name for name, value in a.items() if value.is_floating_point() and value.numel()}
    double = lambda one, name: sources[one][name].double()
    changes = lambda name: [double(one, name) - double("base", name) for one in "ab"]
    if method == "TIES" and is_by_model:
        whole = torch.cat([torch.stack(changes(name)).flatten(1) for name in sorted(floats)], 1)
        thresholds = [cut(one, 0.5) for one in whole]
    for name, value in a.items():
        if name not in floats:
            yield name, value, None
        elif method == "soup":
            yield name, (double("a", name) + double("b", name)) / 2, None
        elif method == "task arithmetic":
            yield name, double("base", name) + sum(changes(name)) / 2, None
        elif method == "SLERP":
            yield name, slerp(double("a", name), double("b", name)), None
        else:
            stack = torch.stack(changes(name))
            cuts = thresholds if is_by_model else [cut(one, 0.5) for one in stack]
            kept = torch.stack([torch.where(one.abs() >= least, one, 0) for one, (_below, least) in zip(stack, cuts)])
            sums = kept.sum(0)
            agrees = (kept * torch.where(sums >= 0, 1.0, -1.0) > 0).double()
            open_ = (sums == 0) & (kept != 0).any(0)
            for one, (below, least) in zip(stack, cuts):
                open_ |= (one.abs() <= least) & (one.abs() >= below)
            yield name, double("base", name) + (kept * agrees).sum(0) / agrees.sum(0).clamp(min=1), open_


def cut(change, density):
    """Magnitude of the largest change that is dropped, and of the smallest that is kept."""
    sizes = change.abs().flatten().sort(descending=True).values
    count = int(density * len(sizes))
    least = sizes[count - 1] if count else torch.tensor(float("inf"))
    return sizes[count] if count < len(sizes) else torch.tensor(-1.0), least


def slerp(a, b):
    norms = a.norm() * b.norm()
    cosine = (a * b).sum() / norms if norms > 0 else torch.zeros(())
    if cosine.abs() > 0.9995:
        return (a + b) / 2
    angle = torch.acos(cosine)
    return torch.sin(angle / 2) / torch.sin(angle) * (a + b)


def deviation(method, sources, have, is_by_model):
    """
    How many values differ from the exact ones rounded to their type, of how many, and the largest error in units of the
    last place, at the largest of the values that the element is computed from.
    """
    differ, total, worst = 0, 0, 0.0
    for name, want, open_ in exact(method, sources, is_by_model):
        value = have.get(name)
        if value is None or value.shape != want.shape or not value.numel():
            continue
        source = sources["a"][name]
        if open_ is None:
            open_ = torch.zeros(want.shape, dtype=torch.bool)
        if not source.is_floating_point():
            differ, total = differ + int((value != want).sum()), total + value.numel()
            continue
        off = (value.double() - want.to(source.dtype).double()).abs()
        off[open_] = 0
        largest = torch.stack([sources[one][name].double().abs() for one in ("a", "b", "base")]).amax(0)
        bits = 8 if source.dtype == torch.bfloat16 else 24
        unit = torch.ldexp(torch.ones(()), torch.frexp(largest.clamp(min=1e-30)).exponent - bits)
        differ, total = differ + int((off > 0).sum()), total + int((~open_).sum())
        worst = max(worst, float((off / unit).max()))
    return {"differ": differ, "of": total, "worst": worst}


def versions(**_):
    from importlib.metadata import version

    named = ("mergekit", "fusion-bench", "torch", "transformers")
    return {**{one: version(one) for one in named}, "Python": sys.version.split()[0]}


if __name__ == "__main__":  # a whole process for one merge: PROGRAM METHOD FOLDER OUT KIND DTYPE
    merge_with(*sys.argv[1:])
    if "PEAK_MEMORY_REPORT" in os.environ:
        with open(os.environ["PEAK_MEMORY_REPORT"], "w") as file:
            file.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
