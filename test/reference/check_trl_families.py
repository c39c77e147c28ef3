"""Checks that what `train --engine trl` writes starts for each family that the engine runs: two steps of LoRA or of all weights on
a tiny random model, on a CPU; losses and norms beside those of the embedded engine. Its adapter is opened in PEFT, too, and must
give the same as in the engine and as merged.

Not part of `npm test`. Needs torch, transformers, peft, trl, accelerate, datasets. Run from the project's folder, after a build:
    python test/reference/check_trl_families.py [full] [lora] [FAMILY...]
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
SIZES = dict(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=48,
             vocab_size=len(WORDS), max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
VISION = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, depth=1, num_heads=2, out_hidden_size=32,
              deepstack_visual_indexes=[0], num_position_embeddings=16)
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
FAMILIES = {
    "smollm3": ("SmolLM3ForCausalLM", SIZES),
    "olmo3": ("Olmo3ForCausalLM", {**SIZES, "sliding_window": 16}),
    "ministral3": ("Ministral3ForCausalLM", {**SIZES, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}}),
    "mistral3": ("Mistral3ForConditionalGeneration", {}),
    "glm4": ("Glm4ForCausalLM", SIZES),
    "apertus": ("ApertusForCausalLM", SIZES),
    "exaone4": ("Exaone4ForCausalLM", {**SIZES, "sliding_window": 16, "sliding_window_pattern": 4}),
    "ernie4_5": ("Ernie4_5ForCausalLM", SIZES),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM", SIZES),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", {}),
}


def make(family, folder):
    name, sizes = FAMILIES[family]
    torch.manual_seed(3)
    if family == "mistral3":
        text = AutoConfig.for_model("ministral3", **FAMILIES["ministral3"][1])
        vision = AutoConfig.for_model("pixtral", hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=16)
        config = AutoConfig.for_model("mistral3", text_config=text, vision_config=vision, image_token_id=len(WORDS) - 1)
    elif family == "qwen3_vl":
        text = {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}}
        config = AutoConfig.for_model("qwen3_vl", text_config=text, vision_config=VISION, image_token_id=31, video_token_id=30,
                                      vision_start_token_id=29, vision_end_token_id=28, tie_word_embeddings=False)
    else:
        config = AutoConfig.for_model(family, **sizes)
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    model.to(torch.float32).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>").save_pretrained(folder)
    return config.architectures or [name]


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
    run = {"base": str(folder / "base"), "out": "out", "method": method, "data": {"sets": [{"source": str(folder / "sums.jsonl"), "map": {"prompt": "q", "response": "a"}}],
           "template": "{prompt} {response}"}, "optimizer": {"lr": 1e-3}, "batch": 4, "steps": 2, "sequence_length": 32}
    given = json.dumps({"text": json.dumps(run), "folder": str(folder)})
    code = CODE % {"dist": (ROOT / "dist").as_uri()}
    done = subprocess.run(["node", "--input-type=module", "-e", code, given], cwd=ROOT, capture_output=True, text=True)
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
    methods = [arg for arg in sys.argv[1:] if arg in ("full", "lora")] or ["full", "lora"]
    wanted = [arg for arg in sys.argv[1:] if arg in FAMILIES] or list(FAMILIES)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for family in wanted:
            for method in methods:
                result = check(family, method, Path(temporary))
                failed += "losses" not in result or "DIFFERS" in result
                print(f"{family} {method}: {result}", flush=True)
    sys.exit(1 if failed else 0)
