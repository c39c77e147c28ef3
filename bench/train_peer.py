"""One mode of the training benchmark in PyTorch eager, transformers and PEFT. A peer for the benchmark only."""
import json, resource, sys, time
import torch
from transformers import AutoModelForCausalLM

folder, mode, threads, rows, length, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
layers = model.config.num_hidden_layers
if mode == "frozen":
    model.model.embed_tokens.requires_grad_(False)
    for layer in model.model.layers[: layers // 2]:
        layer.requires_grad_(False)
if mode == "lora":
    from peft import LoraConfig, get_peft_model

    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=64, lora_alpha=16, use_rslora=True, target_modules=targets))
model.train()
trained = [p for p in model.parameters() if p.requires_grad]
groups = [dict(params=[p for p in trained if p.dim() > 1], weight_decay=0.1),
          dict(params=[p for p in trained if p.dim() == 1], weight_decay=0.0)]
optimizer = torch.optim.AdamW(groups, lr=1e-5, betas=(0.9, 0.99), eps=1e-8)
ids = torch.tensor([3 + ((7919 + i * 104729) % 11000) for i in range(rows * length)]).view(rows, length)
best = (float("inf"), 0.0)
for step in range(-1, steps):
    start = time.perf_counter()
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    middle = time.perf_counter()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    seconds = (middle - start, time.perf_counter() - middle)
    if step >= 0 and sum(seconds) < sum(best):
        best = seconds
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"rate": rows * length / sum(best), "optimizer": best[1] / sum(best), "peak": peak}))
