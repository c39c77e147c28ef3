"""One task on a real model by transformers or TRL, for its seconds and memory: python speed_peer.py TASK ARGUMENTS."""
import os, resource, runpy, sys
from pathlib import Path

import torch

torch.set_num_threads(2)


def generate(folder, prompt, tokens):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer(prompt, return_tensors="pt")
    model.generate(**given, max_new_tokens=int(tokens), min_new_tokens=int(tokens), do_sample=False)


def analyze(base, *experts):
    """Mean absolute change of every input feature of every matrix: the figure's numbers, both models in memory."""
    from safetensors.torch import load_file
    before = load_file(f"{base}/model.safetensors")
    for expert in experts:
        after = load_file(f"{expert}/model.safetensors")
        for name, value in before.items():
            change = (after[name].float() - value.float()).abs()
            change.mean(0) if change.ndim == 2 else change.mean()


def train(folder):
    os.chdir(folder)
    sys.argv = ["train.py"]
    runpy.run_path("train.py", run_name="__main__")


{"generate": generate, "analyze": analyze, "train": train}[sys.argv[1]](*sys.argv[2:])
if "PEAK_MEMORY_REPORT" in os.environ:
    Path(os.environ["PEAK_MEMORY_REPORT"]).write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
