"""Merges by mergekit, and how far layergraft's tensors are from its own. A peer for the comparison only."""
import json, sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from methods_peer import merge
from safetensors import safe_open

given = json.load(sys.stdin)
merge(given["config"], given["theirs"])


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
