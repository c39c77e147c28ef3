"""The loop people write by hand: mean absolute change per input feature, tensor by tensor. A peer for the benchmark only."""
import os, resource, sys
from safetensors import safe_open

with safe_open(sys.argv[1], "pt") as base, safe_open(sys.argv[2], "pt") as expert:
    rows = {name: (expert.get_tensor(name).float() - base.get_tensor(name).float()).abs().mean(0) for name in base.keys()}
with open(os.environ["PEAK_MEMORY_REPORT"], "w") as report:
    report.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
