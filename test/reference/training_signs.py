"""Trains experts of known kinds from one small Llama, and shows what their changes tell of the kind.

Not part of `npm test`. Needs torch, transformers and peft; takes about 5 minutes of a core. Run from the project's folder:
    python test/reference/training_signs.py FOLDER
Seeds 0 to 2 show where the threshold of src/merge/analysis/training-signs.ts may be, seeds 3 to 5 test it. The base adds two numbers; experts learn to
subtract them: by fine-tuning in float32, stored in float32 (sft32) and in bfloat16 (sft16); by LoRA (lora32, lora16); by REINFORCE with
GRPO's advantages (rl32, rl16), and with weights in bfloat16 while training (rlpure, sftpure). Models in FOLDER are not trained again.
"""
import copy, itertools, random, re, sys
from pathlib import Path
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_num_threads(1)
OUT = Path(sys.argv[1])
CHARACTERS = "0123456789+-*=. "
PROMPT = 6
FITTED, TESTED = (0, 1, 2), (3, 4, 5)
RULE = 0.5  # MOSTLY_UNCHANGED


def batch(rng, count, operation):
    """Rows such as `07+35=42.` as tokens, and labels of the answer."""
    rows = []
    for _ in range(count):
        a, b = rng.randrange(50), rng.randrange(50)
        rows.append(f"{a:02d}{operation}{b:02d}={a + b if operation == '+' else abs(a - b):02d}.")
    tokens = torch.tensor([[CHARACTERS.index(c) for c in row] for row in rows])
    labels = tokens.clone()
    labels[:, :PROMPT] = -100
    return tokens, labels


def fine_tune(model, steps, lr, operations, seed):
    rng, parameters = random.Random(seed), [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, (step + 1) / (steps * 0.05)) * (1 - step / steps)
        tokens, labels = batch(rng, 32, operations if len(operations) == 1 else rng.choice(operations))
        model(tokens, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def reinforce(model, steps, lr, seed, prompts=4, group=8):
    """The reward is 1 for the right answer; an advantage is against the mean of the answers to the same prompt."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    for _ in range(steps):
        tokens = batch(rng, prompts, "-")[0].repeat_interleave(group, 0)
        drawn = tokens[:, :PROMPT]
        with torch.no_grad():
            while drawn.shape[1] < tokens.shape[1]:
                chances = model(drawn).logits[:, -1].float().softmax(-1)
                drawn = torch.cat([drawn, torch.multinomial(chances, 1)], 1)
        rewards = (drawn == tokens).all(1).float().view(prompts, group)
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        logits = model(drawn).logits[:, PROMPT - 1 : -1].float()
        likelihoods = logits.log_softmax(-1).gather(-1, drawn[:, PROMPT:, None])[..., 0]
        (-(advantages * likelihoods).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def with_lora(model, seed, lr):
    torch.manual_seed(seed)
    config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    return fine_tune(get_peft_model(model, config), 100, lr, "-", seed).merge_and_unload()


def write(model, dtype, name):
    copy.deepcopy(model).to(dtype).save_pretrained(OUT / name)


def make(names, train):
    """Trains once for all stored types of one expert."""
    if all((OUT / name / "model.safetensors").exists() for name, _ in names):
        return
    model = train()
    for name, dtype in names:
        write(model, dtype, name)


def make_all():
    half, whole = torch.bfloat16, torch.float32
    if not (OUT / "base").is_dir():
        torch.manual_seed(0)
        shape = dict(hidden_size=128, intermediate_size=344, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
        config = LlamaConfig(vocab_size=32, max_position_embeddings=32, tie_word_embeddings=False, pad_token_id=20, bos_token_id=None, eos_token_id=14, **shape)
        write(fine_tune(LlamaForCausalLM(config), 2500, 2e-3, "+++-", 0), half, "base")
    base = LlamaForCausalLM.from_pretrained(OUT / "base", dtype=whole)
    fresh = lambda dtype=whole: copy.deepcopy(base).to(dtype)
    for seed in FITTED + TESTED:
        both = lambda kind, lr: [(f"{kind}32_{lr}_{seed}", whole), (f"{kind}16_{lr}_{seed}", half)]
        for lr in (1e-6, 2e-5):
            make(both("sft", lr), lambda: fine_tune(fresh(), 100, lr, "-", 100 + seed))
            make(both("rl", lr), lambda: reinforce(fresh(), 80, lr, 300 + seed))
        make(both("lora", 1e-3), lambda: with_lora(fresh(), 200 + seed, 1e-3))
        make([(f"rlpure_{1e-6}_{seed}", half)], lambda: reinforce(fresh(half), 80, 1e-6, 300 + seed))
        make([(f"sftpure_{1e-6}_{seed}", half)], lambda: fine_tune(fresh(half), 100, 1e-6, "-", 100 + seed))


def signs(name, base):
    """Share of weights equal to the base's in the matrices of the layers that changed, and whether nothing else changed."""
    own = load_file(OUT / name / "model.safetensors")
    changed = {key: (tensor.float() == base[key].float()) for key, tensor in own.items()}
    changed = {key: equal for key, equal in changed.items() if not equal.all()}
    matrices = [equal for key, equal in changed.items() if ".layers." in key and equal.ndim > 1]
    return sum(int(equal.sum()) for equal in matrices) / sum(equal.numel() for equal in matrices), len(matrices) == len(changed)


def best_split(low, high):
    """The threshold with the fewest errors where `high` should be at or above it, and that number; the middle of its gap."""
    values = sorted(low + high)
    cuts = [values[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(values)), values[-1] + 1]
    errors = lambda cut: sum(value >= cut for value in low) + sum(value < cut for value in high)
    return min(cuts, key=errors), min(map(errors, cuts))


make_all()
base = load_file(OUT / "base" / "model.safetensors")
found = {}
for path in sorted(OUT.glob("*_[0-9]")):
    kind, lr, seed = re.fullmatch(r"(\w+?)_([\d.e-]+)_(\d)", path.name).groups()
    found[kind, float(lr), int(seed)] = signs(path.name, base)
print("kind, rate: share of equal weights over seeds; matrices only")
for kind, lr in sorted({key[:2] for key in found}):
    own = [value for key, value in found.items() if key[:2] == (kind, lr)]
    print(f"{kind:8}{lr:8.0e}  {min(v for v, _ in own):7.2%} to {max(v for v, _ in own):7.2%}  {sum(m for _, m in own)} of {len(own)}")

of = lambda seeds, wanted: [v for key, (v, _) in found.items() if key[2] in seeds and wanted(*key[:2])]
small = lambda kind, lr: kind.endswith("pure") or (kind in ("sft16", "rl16") and lr < 1e-5)
large = lambda kind, lr: not small(kind, lr)
lowest, highest = max(of(FITTED, large)), min(of(FITTED, small))
print(f"small updates in 16 bits: in the fitted seeds, every threshold from {lowest:.1%} to {highest:.1%} has no error" if lowest < RULE <= highest else "the rule FAILS")
wrong = sum(v >= RULE for v in of(TESTED, large)) + sum(v < RULE for v in of(TESTED, small))
print(f"  {RULE}: {wrong} of {len(of(TESTED, lambda *_: True))} errors in the others")
lora = [(key[0].startswith("lora"), only) for key, (_, only) in found.items() if key[2] in TESTED]
print(f"LoRA by matrices only: {sum(a != b for a, b in lora)} of {len(lora)} errors")
sft = lambda kind, lr: kind in ("sft16", "sftpure")
rl = lambda kind, lr: kind in ("rl16", "rlpure")
cut, errors = best_split(of(FITTED, sft), of(FITTED, rl))
wrong = sum(v >= cut for v in of(TESTED, sft)) + sum(v < cut for v in of(TESTED, rl))
print(f"reinforcement against fine-tuning in 16 bits: threshold {cut:.3f}, {errors} errors in the seeds that fit it")
print(f"  {wrong} of {len(of(TESTED, sft)) + len(of(TESTED, rl))} errors in the others")
