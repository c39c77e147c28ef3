"""How often models choose the same experts: python routing.py PROBLEMS FIELD BASE MATH LANGUAGE MERGE...

PROBLEMS is data/problems.jsonl of the miniature, FIELD sw or en. For each model: the share of chosen experts, over all
tokens of 100 prompts, that BASE, MATH and LANGUAGE choose as well, by layer and over all. Needs torch and transformers.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
problems, field, *folders = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folders[0])
lines = open(problems, encoding="utf-8").read().splitlines()[:100]
prompts = [tokenizer(f"{json.loads(line)[field]} Solve:", return_tensors="pt").input_ids for line in lines]


@torch.no_grad()
def chosen(folder):
    """[layers, tokens, experts]: whether a token goes to an expert."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    for ids in prompts:
        logits = torch.stack(model(ids, output_router_logits=True).router_logits)
        top = logits.topk(model.config.num_experts_per_tok, dim=-1).indices
        found.append(torch.zeros_like(logits, dtype=torch.bool).scatter(-1, top, True))
    return torch.cat(found, dim=1)


routes = {folder: chosen(folder) for folder in folders}
for folder, own in routes.items():
    cells = []
    for other in folders[:3]:
        same = (own & routes[other]).sum(-1).float().mean(-1) / own[0, 0].sum()
        cells.append(f"{100 * same.mean():.1f} ({' '.join(f'{100 * layer:.0f}' for layer in same)})")
    loads = own.float().mean(1)
    print(f"{folder} | {' | '.join(cells)} | least and most used: {100 * loads.min():.0f}, {100 * loads.max():.0f}%")
