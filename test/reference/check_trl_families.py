"""Checks that what `train --engine trl` writes starts for each family that the engine runs: two steps of LoRA or of all weights on
a tiny random model, on a CPU; losses and norms beside those of the embedded engine. `packed` is `full` with several samples in a
sequence, which is refused where transformers does not keep them apart. Its adapter is opened in PEFT, too, and must
give the same as in the engine and as merged.

Not part of `npm test`. Needs torch, transformers, peft, trl, accelerate, datasets. Run from the project's folder, after a build:
    python test/reference/check_trl_families.py [full] [lora] [packed] [FAMILY...]
"""
import json, os, subprocess, sys, tempfile
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast, logging

logging.disable_progress_bar()
logging.set_verbosity_error()

ROOT = Path(__file__).parents[2]
WORDS = ["<pad>", "<bos>", "<eos>", "+", "=", "?", *map(str, range(26))]
FIXTURES = ROOT / "test/fixtures/decoders"
FAMILIES = sorted(path.parent.name for path in FIXTURES.glob("*/config.json"))


def make(family, folder):
    """A random model of a tiny decoder's configuration, with the words above as vocabulary."""
    torch.manual_seed(3)
    config = AutoConfig.from_pretrained(FIXTURES / family)
    # PyTorch's grouped products take rows of 16 bytes. Where both matrices of experts had one shape, factors would fit either.
    text = config.get_text_config()
    widths = {"moe_intermediate_size": 12, "moe_shared_expert_intermediate_size": 12, "shared_expert_intermediate_size": 12, "moe_latent_size": 8}
    for name, width in widths.items():
        if getattr(text, name, None):
            setattr(text, name, width)
    if getattr(text, "vocab_size_per_layer_input", None):
        text.vocab_size_per_layer_input = len(WORDS)
    for one in {id(one): one for one in (config, text)}.values():
        one.update({"vocab_size": len(WORDS), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2})
    model = getattr(transformers, config.architectures[0])(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    model.to(torch.float32).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>").save_pretrained(folder)


CODE = """
import { checkRun, handOverRun, trainRun } from "%(dist)s/train/index.js";
import { join } from "node:path";
const { text, folder } = JSON.parse(process.argv[1]);
const run = checkRun(JSON.parse(text));
await trainRun({ run: { ...run, out: join(folder, "engine") }, folder });
await handOverRun({ run: { ...run, out: join(folder, "trl") }, folder });
"""


SCORES = """
import { openEngine } from "%(dist)s/engine/index.js";
import { planMerge } from "%(dist)s/index.js";
const { source, ids, out } = JSON.parse(process.argv[1]);
await (await planMerge({ method: "soup", models: [source] })).write({ out });
const engine = await openEngine(source);
console.log(JSON.stringify(await engine.score(ids)));
await engine.close();
"""


def three_ways(folder):
    """The adapter that the embedded engine trained: in PEFT, in the engine, and merged by layergraft in transformers."""
    from peft import PeftModel

    ids = torch.arange(3, 27).reshape(2, 12) % len(WORDS)
    adapter = folder / "engine/last"
    given = {"source": f"{folder / 'base'}+{adapter}", "ids": ids.tolist(), "out": str(folder / "merged")}
    code = SCORES % {"dist": (ROOT / "dist").as_uri()}
    done = subprocess.run(["node", "--input-type=module", "-e", code, json.dumps(given)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    name = json.loads((folder / "base/config.json").read_text())["architectures"][0]
    load = lambda path: getattr(transformers, name).from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        plain = load(folder / "base")(input_ids=ids).logits
        merged = load(folder / "merged")(input_ids=ids).logits
        peft = PeftModel.from_pretrained(load(folder / "base"), adapter)(input_ids=ids).logits
    scores = peft.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
    apart = [(merged - peft).abs().max() / peft.abs().max(), (torch.tensor(json.loads(done.stdout)) - scores).abs().max(), (plain - peft).abs().max()]
    assert apart[2] > 1e-3, "the adapter changes nothing"
    bad = "  DIFFERS" if max(apart[:2]) > 1e-4 else ""
    return f"; PEFT from merged {apart[0]:.1e}, from the engine's scores {apart[1]:.1e} (the adapter changes {apart[2]:.1e}){bad}"


def steps(log):
    return [line for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]


def check(family, method, root):
    folder = root / f"{family}-{method}"
    folder.mkdir()
    make(family, folder / "base")
    rows = [{"q": f"{a} + {b} ?", "a": f"{a} + {b} = {a + b}"} for a in range(10) for b in range(10)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    packing = {"packing": True, "sequence_length": 64} if method == "packed" else {"sequence_length": 32}
    run = {"base": str(folder / "base"), "out": "out", "method": "lora" if method == "lora" else "full", "data": {"sets": [{"source": str(folder / "sums.jsonl"), "map": {"prompt": "q", "response": "a"}}],
           "template": "{prompt} {response}"}, "optimizer": {"lr": 1e-3}, "batch": 4, "steps": 2, **packing}
    given = json.dumps({"text": json.dumps(run), "folder": str(folder)})
    code = CODE % {"dist": (ROOT / "dist").as_uri()}
    done = subprocess.run(["node", "--input-type=module", "-e", code, given], cwd=ROOT, capture_output=True, text=True)
    if method == "packed" and "packing: transformers does not keep" in done.stderr:
        return "refused"
    if done.returncode:
        return f"not written: {done.stderr.strip().splitlines()[-1] if 'Error' not in done.stderr else [l for l in done.stderr.splitlines() if 'Error' in l][0]}"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HOME": str(root / "cache"), "TOKENIZERS_PARALLELISM": "false"}
    started = subprocess.run([sys.executable, "train.py"], cwd=folder / "trl", capture_output=True, text=True, env=env)
    if started.returncode:
        return f"train.py failed: {(started.stdout + started.stderr).strip().splitlines()[-1]}"
    ours, theirs = steps(folder / "engine/log.jsonl"), steps(folder / "trl/out/log.jsonl")
    loss = max(abs(a["loss"] - b["loss"]) for a, b in zip(ours, theirs))
    norm = max(abs(a["gradientNorm"] / b["gradientNorm"] - 1) for a, b in zip(ours, theirs))
    last = folder / "trl/out/last"
    opened = "adapter" if method == "lora" else json.loads((last / "config.json").read_text())["architectures"][0]
    bad = "" if len(theirs) == 2 and loss < 1e-4 and norm < 1e-2 else "  DIFFERS"
    return f"losses {' '.join(format(line['loss'], '.6f') for line in theirs)}, apart {loss:.1e}, norms {norm:.1e}; saved {opened}{bad}" + (three_ways(folder) if method == "lora" else "")


if __name__ == "__main__":
    methods = [arg for arg in sys.argv[1:] if arg in ("full", "lora", "packed")] or ["full", "lora", "packed"]
    wanted = [arg for arg in sys.argv[1:] if arg in FAMILIES] or list(FAMILIES)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for family in wanted:
            for method in methods:
                result = check(family, method, Path(temporary))
                failed += not result.startswith(("losses", "refused")) or "DIFFERS" in result
                print(f"{family} {method}: {result}", flush=True)
    sys.exit(1 if failed else 0)
