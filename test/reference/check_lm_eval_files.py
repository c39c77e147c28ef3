"""Checks `layergraft compare` on files that lm-evaluation-harness wrote.

Not part of `npm test`. Needs torch, datasets, numpy, scipy and lm-eval 0.4.13 (without its optional dependencies), no network.
Run from the project's folder, after a build:
    python test/reference/check_lm_eval_files.py
    python test/reference/check_lm_eval_files.py --fixtures test/fixtures/lm-eval
Two seeded models that do sums, right most of the time, are evaluated by lm-eval itself on tasks that are declared here: answers
in text with two filters, choices, and a group. The comparison must have lm-eval's scores, and scipy's p values.
--fixtures writes the two results as the tests have them, without what lm-eval notes about the machine.
"""
import argparse, hashlib, importlib.machinery, importlib.util, json, os, re, shutil, subprocess, sys, tempfile, types
from pathlib import Path

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
parser = argparse.ArgumentParser()
parser.add_argument("--fixtures", type=Path)
options = parser.parse_args()
cache = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = cache.name

# lm-eval imports these for other tasks.
for name in ("evaluate", "jsonlines", "pytablewriter", "rouge_score", "sqlitedict", "tqdm_multiprocess", "word2number"):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)

import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from scipy.stats import binomtest

CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"
failures = 0


def check(what, ok):
    global failures
    failures += not ok
    print(f"{'ok       ' if ok else 'DIFFERENT'} {what}")


def layergraft(*args):
    found = subprocess.run(["node", CLI, *map(str, args)], capture_output=True, text=True)
    if found.returncode != 0:
        raise RuntimeError(found.stderr)
    return found.stdout


class Sums(LM):
    """Adds the two numbers of a question, and is right with a probability; says #### in most answers."""

    def __init__(self, name, share):
        super().__init__()
        self.name, self.share = name, share

    def chance(self, text, what):
        digest = hashlib.sha256(f"{self.name} {what} {text}".encode()).digest()
        return int.from_bytes(digest[:4], "little") / 2**32

    def answer(self, prompt):
        question = prompt.split("Question:")[-1]
        a, b = map(int, re.findall(r"\d+", question)[:2])
        return a + b + (0 if self.chance(question, "right") < self.share else 1)

    def generate_until(self, requests, disable_tqdm=False):
        texts = [request.args[0] for request in requests]
        return [f" {'#### ' if self.chance(text, 'mark') < 0.8 else 'It is '}{self.answer(text)}" for text in texts]

    def loglikelihood(self, requests, disable_tqdm=False):
        scores = []
        for request in requests:
            prompt, choice = request.args
            scores.append((-abs(int(choice) - self.answer(prompt)) - self.chance(prompt + choice, "noise") / 4, False))
        return scores

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def rows(first, count):
    return [{"question": f"{a} + {b}", "answer": str(a + b), "choices": [str(a + b - 1), str(a + b), str(a + b + 1)]}
            for a, b in ((first + i % 7, 3 + i * 5 % 11) for i in range(count))]


def tasks(root):
    def data(name, first, count):
        file = root / f"{name}.jsonl"
        file.write_text("".join(json.dumps({**row, "id": i}) + "\n" for i, row in enumerate(rows(first, count))), "utf-8")
        return {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}}, "test_split": "test",
                "fewshot_split": "test", "doc_to_text": "Question: {{question}}\nAnswer:", "metadata": {"version": 1.0}}

    words = {**data("sums_words", 10, 20), "task": "sums_words", "output_type": "generate_until", "doc_to_target": "{{answer}}",
             "generation_kwargs": {"until": ["\n"]}, "num_fewshot": 2,
             "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
             "filter_list": [
                 {"name": "strict-match", "filter": [{"function": "regex", "regex_pattern": "#### (\\d+)"}, {"function": "take_first"}]},
                 {"name": "flexible-extract", "filter": [{"function": "regex", "regex_pattern": "(\\d+)"}, {"function": "take_first"}]}]}
    choices = [{**data(f"sums_{name}", first, count), "task": f"sums_{name}", "output_type": "multiple_choice",
                "doc_to_choice": "{{choices}}", "doc_to_target": 1, "num_fewshot": 0,
                "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True},
                                {"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True}]}
               for name, first, count in (("small", 1, 12), ("large", 50, 8))]
    group = {"group": "sums", "task": [choice["task"] for choice in choices], "aggregate_metric_list": [{"metric": "acc", "aggregation": "mean", "weight_by_size": True}]}
    return [words, *choices, group]


def evaluate(model, out, declared):
    """What `lm_eval run --log_samples --output_path OUT` does."""
    tracker = EvaluationTracker(output_path=str(out))
    tracker.general_config_tracker.log_experiment_args("sums", f"pretrained={model.name}", None, None, False)
    folder = out.with_name(f"{out.name}-tasks")
    folder.mkdir()
    for one in declared:
        (folder / f"{one.get('group', one['task'])}.yaml").write_text(json.dumps(one), "utf-8")
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    names = [declared[0]["task"], *(one["group"] for one in declared if "group" in one)]
    results = lm_eval.simple_evaluate(model, tasks=names, task_manager=manager, bootstrap_iters=0, log_samples=True)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    return results, samples


def without_machine(folder, root):
    """Removes what lm-eval notes about the machine, and the dates of files, so that fixtures are the same everywhere."""
    for file in sorted(folder.rglob("*.json*")):
        text = file.read_text("utf-8").replace(str(root), "data")
        if file.suffix == ".json":
            value = json.loads(text)
            for key in ("pretty_env_info", "upper_git_hash", "git_hash", "date", "start_time", "end_time", "total_evaluation_time_seconds"):
                value.pop(key, None)
            text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        file.unlink()
        file.with_name(re.sub(r"_\d{4}-\d\d-\d\dT[\d.-]+(?=\.json)", "_2026-01-01T00-00-00.000000", file.name)).write_text(text, "utf-8")


def close(a, b):
    return abs(a - b) < 1e-9


with tempfile.TemporaryDirectory() as scratch:
    root = Path(scratch)
    found = {}
    for name, share in (("first", 0.6), ("second", 0.85)):
        found[name] = evaluate(Sums(name, share), root / name, tasks(root))
        check(f"lm-eval wrote {name}: {sorted(file.name.split('_20')[0] for file in (root / name / name).iterdir())}", True)
    compared = json.loads(layergraft("compare", root / "first", root / "second", "--json"))
    before, after = found["first"][0], found["second"][0]
    scores = {task: [key for key in entry if "," in key and "_stderr" not in key and isinstance(entry[key], (int, float))]
              for task, entry in before["results"].items()}
    seen = {(task["task"], one["metric"]) for task in compared["tasks"] for one in task["comparisons"]}
    check(f"compares {sorted(seen)}", {(task, key) for task, keys in scores.items() for key in keys} == seen)
    for task in compared["tasks"]:
        name = task["task"]
        parts = before["group_subtasks"].get(name) or [name]
        for one in task["comparisons"]:
            key = one["metric"]
            metric, kind = key.split(",")
            pairs = []
            for part in parts:
                sides = [{sample["doc_id"]: sample[metric] for sample in found[side][1][part] if sample["filter"] == kind} for side in ("first", "second")]
                pairs += [(sides[0][doc], sides[1][doc]) for doc in sides[0]]
            gained, lost = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
            p = binomtest(gained, gained + lost).pvalue if gained + lost else 1
            ok = (close(one["first"], before["results"][name][key]) and close(one["second"], after["results"][name][key])
                  and one["items"] == len(pairs) and len(one["gained"]) == gained and len(one["lost"]) == lost and close(one["pValue"], p))
            check(f"{name:12} {key:28} {one['first']:.3f} {one['second']:.3f}  gained {gained}, lost {lost}, p {p:.4f}", ok)

    # Another prompt, and other documents, are refused with their number.
    other = tasks(root)
    other[0]["num_fewshot"] = 1
    evaluate(Sums("second", 0.85), root / "shots", other[:1])
    other[0].update(num_fewshot=2, doc_to_text="Q: {{question}}\nQuestion: {{question}}\nAnswer:")
    evaluate(Sums("second", 0.85), root / "prompt", other[:1])
    for folder, expected in (("shots", "2 shots, the other 1"), ("prompt", "20 of 20 prompts differ")):
        try:
            layergraft("compare", root / "first", root / folder)
            check(f"refuses {folder}", False)
        except RuntimeError as error:
            check(f"refuses {folder}: {str(error).strip().splitlines()[-1].strip()}", expected in str(error))

    if options.fixtures:
        shutil.rmtree(options.fixtures, ignore_errors=True)
        for name in ("first", "second"):
            shutil.copytree(root / name / name, options.fixtures / name)
            without_machine(options.fixtures / name, root)
        print(f"Wrote {options.fixtures}")
sys.exit(failures > 0)
