"""Checks `layergraft eval --protocol lm-eval` against lm-evaluation-harness itself, item by item, on a tiny Llama.

Not part of `npm test`. Needs torch, transformers, tokenizers, datasets and lm-eval 0.4.13, no network. Run from the project's
folder, after a build, with a folder of data as docs/evaluate-and-compare.md has them:
    python test/reference/check_lm_eval.py --data DIR
    python test/reference/check_lm_eval.py --data DIR --serve
With --serve, lm-eval asks `layergraft serve` by its `local-completions`; otherwise it runs the model with transformers.
Tasks are lm-eval's own declarations, with the rows read from DIR instead of the hub; prompts, shots, tokenization and
scores are its own. Accuracy and every choice must be equal, log-probabilities to 1e-4.
"""
import argparse, csv, importlib.machinery, importlib.util, json, os, subprocess, sys, tempfile, types
from pathlib import Path

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--limit", type=int, default=40)
parser.add_argument("--serve", action="store_true", help="run the model with layergraft serve")
options = parser.parse_args()
cache = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = cache.name

# lm-eval imports these for other tasks and for its tables.
for name in ("evaluate", "jsonlines", "pytablewriter", "rouge_score", "sqlitedict", "tqdm_multiprocess", "word2number"):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)

import lm_eval, torch, yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, logging

logging.set_verbosity_error()
CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"
DECLARATIONS = Path(lm_eval.__file__).parent / "tasks"
SUBJECTS = ["abstract_algebra", "global_facts"]
LANGUAGE = "deu_Latn"


def write_model(folder, has_bos):
    """A random Llama of three layers, with a byte-level BPE that does or does not put BOS before a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator((options.data / "belebele" / f"{LANGUAGE}.jsonl").read_text("utf-8")[:400_000].split("\n"), trainer)
    if has_bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    torch.manual_seed(3)
    # Weights large enough that the letters' log-probabilities differ by more than rounding, and small enough to be like a model's.
    config = LlamaConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=128, num_hidden_layers=3,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=8192, bos_token_id=0,
                         eos_token_id=1, tie_word_embeddings=False, initializer_range=0.15)
    LlamaForCausalLM(config).save_pretrained(folder)


def declaration(file):
    """lm-eval's declaration of a task, with what it includes."""
    own = yaml.safe_load(file.read_text("utf-8"))
    included = own.pop("include", None)
    return {**(declaration(file.parent / included) if included else {}), **own}


def local(config, files):
    """The same declaration over local files."""
    config = {key: value for key, value in config.items() if key not in ("dataset_name", "tag", "task_alias")}
    return {**config, "dataset_path": "json", "dataset_kwargs": {"data_files": {split: str(file) for split, file in files.items()}}}


def mmlu(subject, root):
    files = {}
    for split in ("dev", "test"):
        files[split] = root / f"{subject}_{split}.jsonl"
        with open(options.data / "mmlu" / split / f"{subject}_{split}.csv", newline="", encoding="utf-8") as source:
            rows = [{"question": row[0], "choices": row[1:5], "answer": "ABCD".index(row[5])} for row in csv.reader(source)]
        files[split].write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return local(declaration(DECLARATIONS / "mmlu" / "default" / f"mmlu_{subject}.yaml"), files)


def evaluate(model, has_bos, tasks):
    """What lm-eval finds."""
    settings = dict(tasks=list(tasks.values()), num_fewshot=5, limit=options.limit, bootstrap_iters=0)
    if not options.serve:
        from lm_eval.models.huggingface import HFLM
        return lm_eval.simple_evaluate(HFLM(pretrained=str(model), device="cpu", dtype="float32", batch_size=1), **settings)
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    server = subprocess.Popen(["node", CLI, "serve", model, "--port", "0", "--json", "--quiet"], stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(server.stdout.readline())["url"]
        api = LocalCompletionsAPI(base_url=f"{url}/v1/completions", model=model.name, tokenizer=str(model), batch_size=4,
                                  num_concurrent=3, max_length=8192, add_bos_token=has_bos)
        return lm_eval.simple_evaluate(api, **settings)
    finally:
        server.terminate()
        assert server.wait() == 0


failures = 0
with tempfile.TemporaryDirectory() as scratch:
    root = Path(scratch)
    belebele = declaration(DECLARATIONS / "belebele" / f"belebele_{LANGUAGE}.yaml")
    rows = {"test": options.data / "belebele" / f"{LANGUAGE}.jsonl"}
    tasks = {f"mmlu_{subject}": mmlu(subject, root) for subject in SUBJECTS} | {f"belebele_{LANGUAGE}": local(belebele, rows)}
    for has_bos in (True, False):
        model, out = root / f"model-{has_bos}", root / f"results-{has_bos}"
        write_model(model, has_bos)
        command = ["node", CLI, "eval", model, "--tasks", ",".join(tasks), "--protocol", "lm-eval", "--limit", str(options.limit),
                   "--data", options.data, "--out", out, "--json", "--quiet", "--shots", "5"]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        theirs = evaluate(model, has_bos, tasks)
        for task in ours["tasks"]:
            name = task["task"]
            samples = sorted(theirs["samples"][name], key=lambda sample: sample["doc_id"])
            own = [json.loads(line) for line in (out / f"samples-{name}.jsonl").read_text("utf-8").splitlines()]
            expected = [[float(score) for score, _ in sample["filtered_resps"]] for sample in samples]
            choices = [scores.index(max(scores)) for scores in expected]
            same = sum(sample["reading"]["choice"] == choice for sample, choice in zip(own, choices))
            worst = max(abs(a - b) for sample, scores in zip(own, expected) for a, b in zip(sample["output"], scores))
            accuracy, reference = task["scores"][0]["value"], theirs["results"][name]["acc,none"]
            ok = len(own) == len(samples) == same == options.limit and worst < 1e-4 and abs(accuracy - reference) < 1e-12
            failures += not ok
            print(f"{name:24} {'BOS   ' if has_bos else 'no BOS'} choices equal: {same} of {len(samples)}  letters chosen: {len(set(choices))}  "
                  f"accuracy {accuracy} and {reference}  worst log-probability {worst:.1e}  {'ok' if ok else 'DIFFERENT'}")
sys.exit(failures > 0)
