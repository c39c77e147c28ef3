"""Checks that transformers opens what layergraft writes with a config.json that it had to rewrite, for every family.

Not part of `npm test`. Needs torch, transformers and tokenizers. Run from the project's folder, after a build:
    python test/reference/check_rewritten_configs.py
"""
import json, shutil, subprocess, sys, tempfile
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, logging

logging.disable_progress_bar()
logging.set_verbosity_error()

CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"
DECODERS = Path(__file__).parents[1] / "fixtures" / "decoders"


def layergraft(*arguments):
    subprocess.run(["node", CLI, *map(str, arguments), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def opens(folder):
    _, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    return not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))


def words(count):
    vocabulary = {"<unk>": 0, **{f"w{i}": i for i in range(1, count)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


failures = 0
with tempfile.TemporaryDirectory() as root:
    for decoder in sorted(path for path in DECODERS.iterdir() if path.is_dir()):
        here = Path(root) / decoder.name
        base = here / "base"
        shutil.copytree(decoder, base, ignore=shutil.ignore_patterns("expected*"))
        config = json.loads((base / "config.json").read_text())
        words(config["vocab_size"]).save(str(base / "tokenizer.json"))
        (base / "tokenizer_config.json").write_text(json.dumps({"eos_token": "w2", "tokenizer_class": "PreTrainedTokenizerFast"}))
        (here / "data.jsonl").write_text("\n".join(json.dumps({"prompt": "w3 w4", "response": f"w{5 + i}"}) for i in range(8)))
        slices = [{"model": str(base), "layers": "0-1"}, {"model": str(base), "layers": "0-1"}]
        (here / "recipe.yaml").write_text(json.dumps({"method": "passthrough", "slices": slices}))
        run = dict(base=str(base), out=str(here / "run"), steps=2, sequence_length=8, save_dtype="bfloat16", optimizer={"lr": 1e-3},
                   data={"source": str(here / "data.jsonl"), "map": {"prompt": "{prompt}", "response": "{response}"}})
        (here / "run.yaml").write_text(json.dumps(run))
        layergraft("soup", "--model", base, "--dtype", "float16", "--out", here / "soup")
        layergraft("merge", here / "recipe.yaml", "--out", here / "deeper")
        layergraft("train", here / "run.yaml")
        results = {}
        for name in ("soup", "deeper", "run/last"):
            try:
                results[name] = opens(here / name)
            except Exception as error:
                results[name] = f"{type(error).__name__}: {str(error)[:200]}"
        failures += any(result is not True for result in results.values())
        print(f"{decoder.name:18} {results}", flush=True)
sys.exit(failures > 0)
