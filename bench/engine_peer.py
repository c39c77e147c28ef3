"""One mode of the engine benchmark in PyTorch eager and transformers. A peer for the benchmark only."""
import json, resource, sys, time
import torch
from transformers import AutoModelForCausalLM

folder, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
tokens = lambda count, seed: [3 + ((seed * 7919 + i * 104729) % 31000) for i in range(count)]


def best(measure, count=3):
    measure()
    return max(measure() for _ in range(count))


def prefill():
    ids = torch.tensor([tokens(512, 1)])
    start = time.perf_counter()
    with torch.no_grad():
        model(input_ids=ids, use_cache=True, logits_to_keep=1)
    return 512 / (time.perf_counter() - start)


def decode(rows):
    ids = torch.tensor([tokens(64, row) for row in range(rows)])
    with torch.no_grad():
        out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        start = time.perf_counter()
        for _ in range(48):
            out = model(input_ids=out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values, use_cache=True)
        return rows * 48 / (time.perf_counter() - start)


def train():
    ids = torch.tensor(tokens(512, 1)).view(2, 256)
    model.zero_grad(set_to_none=True)
    start = time.perf_counter()
    model(input_ids=ids, labels=ids).loss.backward()
    return 512 / (time.perf_counter() - start)


modes = {"prefill": prefill, "decode": lambda: decode(1), "decode-8": lambda: decode(8), "train": train}
print(json.dumps({"rate": best(modes[mode]), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
