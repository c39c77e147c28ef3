"""How transformers renames the tensors of a family's files in memory: regular expressions, in the order they apply."""
import re

from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import GroupWeightRename, MergeModulelist, PrefixChange, WeightConverter, WeightRenaming

#: The matrices of one expert, in the order in which they are joined to one tensor.
HALVES = {"gate_up_proj": ["gate_proj", "up_proj"]}


def renamings(model):
    """Pairs of a pattern and its replacement. A tensor whose values are converted becomes another, which nothing else is named."""
    found = []
    for transform in get_model_conversion_mapping(model, add_legacy=False):
        if type(transform) in (WeightRenaming, PrefixChange, GroupWeightRename):
            # Of a group, those that take a name come after the one that had it.
            pairs = list(zip(transform.source_patterns, transform.target_patterns))
            for source, target in reversed(pairs) if type(transform) is GroupWeightRename else pairs:
                found.append((source.replace("*.", r".*\."), target, transform))
        elif isinstance(transform, WeightConverter) and isinstance(transform.operations[0], MergeModulelist):
            stem, _, last = transform.target_patterns[0].rpartition(".")
            for source, part in zip(transform.source_patterns, HALVES.get(last, [last])):
                numbered = re.escape(source).replace(r"\*", r"(\d+)")
                found.append((numbered, rf"{stem}.\1.{part}.weight", transform))
        elif isinstance(transform, WeightConverter):
            for source in transform.source_patterns:
                found.append((source.replace("*.", r".*\."), "CONVERTED", transform))
    return [(within(bounded(pattern), transform), target.replace(r"\.", ".")) for pattern, target, transform in found]


def bounded(pattern):
    return pattern + r"(?!\w)" if re.search(r"[a-zA-Z0-9]$", pattern) else pattern


def within(pattern, transform):
    """A pattern that matches only below the transform's module."""
    if not transform.scope_prefix:
        return pattern
    base = f"(?:{re.escape(transform.base_model_prefix)}\\.)?" if transform.base_model_prefix else ""
    start = f"^{base}{re.escape(transform.scope_prefix)}\\."
    return f"(?<={start}){pattern[1:]}" if pattern.startswith("^") else f"(?<={start}.*){pattern}"
