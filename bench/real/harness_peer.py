"""What lm-evaluation-harness answers and scores, by its own declarations over local files. A peer for the comparison only."""
import csv, importlib.machinery, importlib.util, json, sys, types
from pathlib import Path

# lm-eval imports these for other tasks and for its tables.
for name in ("evaluate", "jsonlines", "pytablewriter", "rouge_score", "sqlitedict", "tqdm_multiprocess", "word2number"):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)

import contextlib, datasets, lm_eval, lm_eval.tasks, yaml
from importlib.metadata import version
from lm_eval.models.huggingface import HFLM
from transformers import logging

logging.set_verbosity_error()
given = json.load(sys.stdin)
data, scratch, items, shots = Path(given["data"]), Path(given["scratch"]), given["items"], given["shots"]
scratch.mkdir(parents=True, exist_ok=True)
DECLARATIONS = Path(lm_eval.__file__).parent / "tasks"
STRICT = {"strict-match": "strict", "remove_whitespace": "strict", "flexible-extract": "flexible", "none": "accuracy"}


def declaration(file):
    own = yaml.safe_load(file.read_text("utf-8"))
    included = own.pop("include", None)
    return {**(declaration(file.parent / included) if included else {}), **own}


def rows_file(name, rows):
    file = scratch / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return str(file)


def mmlu(subject):
    def rows(split):
        with open(data / "mmlu" / split / f"{subject}_{split}.csv", newline="", encoding="utf-8") as source:
            return [{"question": row[0], "choices": row[1:5], "answer": "ABCD".index(row[5])} for row in csv.reader(source)]
    files = {split: rows_file(f"mmlu_{subject}-{split}", rows(split)) for split in ("dev", "test")}
    return declaration(DECLARATIONS / "mmlu" / "default" / f"mmlu_{subject}.yaml"), files


def mgsm(language):
    with open(data / "mgsm" / f"mgsm_{language}.tsv", encoding="utf-8") as source:
        problems = [line.rstrip("\n").split("\t") for line in source]
    test = [{"question": q, "answer": None, "answer_number": int(float(n.replace(",", "")))} for q, n in problems]
    exemplars = json.loads((data / "mgsm" / "exemplars.json").read_text("utf-8"))
    solved = exemplars["exemplars"][language]
    train = [{"question": one["q"], "answer": one["a"], "answer_number": number}
             for one, number in zip(solved if isinstance(solved, list) else solved.values(), exemplars["number_answers"])]
    files = {"test": rows_file(f"mgsm_{language}", test), "train": rows_file(f"mgsm_{language}-train", train)}
    return declaration(DECLARATIONS / "mgsm" / "direct" / f"mgsm_direct_{language}.yaml"), files


def declared(task):
    family, _, rest = task.partition("_")
    if family == "mmlu":
        config, files = mmlu(rest)
    elif family == "mgsm":
        config, files = mgsm(rest)
    elif family == "belebele":
        config = declaration(DECLARATIONS / "belebele" / f"{task}.yaml")
        files = {"test": str(data / "belebele" / f"{rest}.jsonl")}
    else:
        config = declaration(DECLARATIONS / "gsm8k" / "gsm8k.yaml")
        files = {split: str(data / "gsm8k" / f"{split}.jsonl") for split in ("train", "test")}
    config = {key: value for key, value in config.items() if key not in ("dataset_name", "tag", "task_alias")}
    kwargs = {"data_files": files}
    if family == "mgsm":  # whose answer is null in the test split
        kwargs["features"] = datasets.Features({"question": datasets.Value("string"), "answer": datasets.Value("string"), "answer_number": datasets.Value("int64")})
    config |= {"task": task, "dataset_path": "json", "dataset_kwargs": kwargs, "fewshot_config": {"sampler": "first_n"}}
    if "train" in files:
        config["fewshot_split"] = "train"
    return config


def sample_of(parts):
    """One item: what was answered, and its scores by layergraft's names."""
    first = parts[0]["filtered_resps"] if len(parts[0]["resps"]) > 1 else parts[0]["resps"][0][0]
    output = first if isinstance(first, str) else [float(score) for score, _ in first]
    scores = {STRICT[one["filter"]]: one.get("exact_match", one.get("acc")) for one in parts}
    return {"output": output, "scores": scores}


with contextlib.redirect_stdout(sys.stderr):
    model = HFLM(pretrained=given["folder"], device="cpu", dtype="float32", batch_size=1)
    found = lm_eval.simple_evaluate(model, tasks=[declared(task) for task in given["tasks"]], num_fewshot=shots, limit=items,
                                    bootstrap_iters=0, task_manager=lm_eval.tasks.TaskManager(include_defaults=False))
samples = {}
for task in given["tasks"]:
    by_item = {}
    for one in found["samples"][task]:
        by_item.setdefault(one["doc_id"], []).append(one)
    samples[task] = [sample_of(by_item[item]) for item in sorted(by_item)]
print(json.dumps({"version": version("lm_eval"), "samples": samples}))
