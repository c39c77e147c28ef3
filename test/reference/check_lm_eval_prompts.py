"""Checks the lm-eval/ protocols of MGSM, GSM8K, AfriMGSM, FLORES, Global-MMLU and AfriMMLU against lm-evaluation-harness itself:
the same prompts, stops and choices to the byte, and the same filtered answers and verdicts on sample generations.

Not part of `npm test`. Needs lm-eval 0.4.13, datasets and sacrebleu, no network. Run from the project's folder, after a build,
with a folder of data as docs/evaluate-and-compare.md has them:
    python test/reference/check_lm_eval_prompts.py --data DIR
Tasks are lm-eval's own declarations, with rows of DIR in the columns of the published data sets. A model that records what it is
asked gives the sample generations. Shots are the first rows in both, where lm-eval would draw them at random.
"""
import argparse, csv, importlib.machinery, importlib.util, json, os, subprocess, sys, tempfile, types
from pathlib import Path

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, required=True)
options = parser.parse_args()
cache = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = cache.name

# lm-eval imports these for other tasks and for its tables.
for name in ("evaluate", "jsonlines", "pytablewriter", "rouge_score", "sqlitedict", "tqdm_multiprocess", "word2number"):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)

import datasets, lm_eval, lm_eval.tasks, yaml
from lm_eval.api.model import LM

# Its own declarations are read below; finding all of them takes a minute each time.
MANAGER = lm_eval.tasks.TaskManager(include_defaults=False)
TASKS = Path(lm_eval.__file__).parent / "tasks"
ITEMS = Path(__file__).parent / "lm_eval_items.js"
LANGUAGES = "bn de en es fr ja ru sw te th zh".split()
SUBJECT = "global_facts"

# One for each item, with its right answer in place of N.
ANSWERS = [
    " 16 - 3 - 4 = 9. 9 * 2 = N. The answer is N.", " Jibu ni N.", " Die Antwort lautet N.", " La respuesta es N.",
    " La réponse est N.", " Ответ — N.", " 答えはNです。", " 答案是 N。", " సమాధానం N.", " คำตอบคือ N", "The answer is -3,000.50 and",
    "N", " N \n", "$N.", "It is $N, or 19.", "no number", "", "$.,", "#### N", "so 9*2=N\n#### 1,8.", "#### $N.\n", "A\n#### N\n#### 3",
    "The answer is 3. The answer is N.", "উত্তর হল ১৮।", " .N", "N.0", "-N", "٣", "THE ANSWER IS N", " The answer is ., ",
]
LIMIT = len(ANSWERS)


def constructor(folder):
    """Reads `!function utils.name` from the utils.py beside a declaration."""
    class Loader(yaml.SafeLoader):
        pass
    def function(loader, node):
        module, name = node.value.split(".")
        spec = importlib.util.spec_from_file_location(module, folder / f"{module}.py")
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return getattr(found, name)
    Loader.add_constructor("!function", function)
    return Loader


def declaration(file):
    """lm-eval's declaration of a task, with what it includes."""
    own = yaml.load(file.read_text("utf-8"), constructor(file.parent))
    included = own.pop("include", None)
    return {**(declaration(file.parent / included) if included else {}), **own}


class Recorder(LM):
    """Records what it is asked, and gives each item its sample generation."""
    def __init__(self, answers):
        super().__init__()
        self.answers, self.asked = answers, []
    def generate_until(self, requests, disable_tqdm=False):
        self.asked += [(request.doc_id, *request.args) for request in requests]
        return [self.answers[request.doc_id] for request in requests]
    def loglikelihood(self, requests, disable_tqdm=False):
        self.asked += [(request.doc_id, *request.args) for request in requests]
        return [(-1.0, False)] * len(requests)
    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def theirs(config, files, shots, answers):
    config = {key: value for key, value in config.items() if key not in ("dataset_name", "tag", "task_alias", "dataset_kwargs")}
    # f1 needs the library evaluate, ter a table of sacreBLEU that the network has.
    config["metric_list"] = [one for one in config["metric_list"] if one["metric"] not in ("f1", "ter")]
    data = {"data_files": {split: str(file) for split, file in files.items()}}
    first = json.loads(next(iter(files.values())).read_text("utf-8").split("\n")[0])
    if "answer_number" in first:  # whose answer is null in the test split
        data["features"] = datasets.Features({"question": datasets.Value("string"), "answer": datasets.Value("string"), "answer_number": datasets.Value("int64")})
    config |= {"dataset_path": "json", "dataset_kwargs": data, "fewshot_config": {"sampler": "first_n"}}
    if "train" in files:
        config["fewshot_split"] = "train"
    model = Recorder(answers)
    results = lm_eval.simple_evaluate(model, tasks=[config], num_fewshot=shots, limit=LIMIT, bootstrap_iters=0,
                                      task_manager=MANAGER)
    return model.asked, next(iter(results["samples"].values()))


def ours(task, protocol, shots, folder):
    request = dict(task=task, protocol=protocol, shots=shots, folder=str(folder), answers=ANSWERS)
    command = subprocess.run(["node", ITEMS], input=json.dumps(request), check=True, capture_output=True, text=True)
    return json.loads(command.stdout)[:LIMIT]


def compare(what, config, files, task, protocol, shots, folder, filters=None):
    """filters: lm-eval's names of the strict and the flexible reading; None for choices; "corpus" for translations."""
    own = ours(task, protocol, shots, folder)
    problems = []
    asked, samples = theirs(config, files, shots, [item.get("answered") for item in own])
    for i, item in enumerate(own):
        if filters is None:
            expected = [args for doc, *args in asked if doc == i]
            if [[item["asked"], choice] for choice in item["choices"]] != expected:
                problems.append(f"item {i}: {item['asked']!r} {item['choices']} is not {expected}")
            continue
        [[context, settings]] = [args for doc, *args in asked if doc == i]
        if item["asked"] != context:
            problems.append(f"item {i}: {item['asked'][-300:]!r} is not {context[-300:]!r}")
        if item["stop"] != settings["until"]:
            problems.append(f"item {i}: the stops {item['stop']} are not {settings['until']}")
        for name, filtered in zip(("strict", "flexible"), () if filters == "corpus" else filters):
            [sample] = [one for one in samples if one["doc_id"] == i and one["filter"] == filtered]
            if item["reading"][name] != sample["filtered_resps"][0] or item["verdict"][name] != sample["exact_match"]:
                problems.append(f"item {i}, {item['answered']!r}, {filtered}: {item['reading']} {item['verdict']} is not {sample['filtered_resps']} {sample['exact_match']}")
    print(f"{what:34} {shots} shots  {len(own)} items  {sum(item['verdict'].get('strict') == 1 for item in own)} right  {'ok' if not problems else 'DIFFERENT'}", flush=True)
    for problem in problems[:3]:
        print("   ", problem)
    return len(problems) > 0


def lines(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return file


def table(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, rows[0].keys(), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


failures = 0
with tempfile.TemporaryDirectory() as scratch:
    root = Path(scratch)
    exemplars = json.loads((options.data / "mgsm" / "exemplars.json").read_text("utf-8"))

    def problems(language):
        with open(options.data / "mgsm" / f"mgsm_{language}.tsv", encoding="utf-8") as source:
            for line in source:
                question, number = line.rstrip("\n").split("\t")
                yield {"question": question, "answer": None, "answer_number": int(float(number.replace(",", "")))}

    def solved(language):
        for shot, number in zip(exemplars["exemplars"][language] if isinstance(exemplars["exemplars"][language], list)
                                else exemplars["exemplars"][language].values(), exemplars["number_answers"]):
            yield {"question": shot["q"], "answer": shot["a"], "answer_number": number}

    NATIVE, DIRECT = ("strict-match", "flexible-extract"), ("remove_whitespace", "flexible-extract")
    for language in LANGUAGES:
        files = {"test": lines(root / "mgsm" / f"{language}.jsonl", problems(language)),
                 "train": lines(root / "mgsm" / f"{language}-train.jsonl", solved(language))}
        for folder, protocol, filters in (("native_cot", "native-cot", NATIVE), ("en_cot", "en-cot", NATIVE), ("direct", "direct", DIRECT)):
            config = declaration(TASKS / "mgsm" / folder / f"mgsm_{folder}_{language}.yaml")
            # With shots, prompts end in what they are without.
            failures += compare(f"mgsm_{language} {protocol}", config, files, f"mgsm_{language}", f"lm-eval/mgsm-{protocol}", 3,
                                options.data, filters)

    # The rows of AfriMGSM have English prefixes.
    swahili = [{**row, "question": row["question"].replace("Swali:", "Question:"),
                "answer": row["answer"].replace("Jibu la Hatua kwa Hatua:", "Step-by-Step Answer:")} for row in solved("sw")]
    rows = list(problems("sw"))
    table(root / "data" / "afrimgsm" / "data" / "swa" / "dev.tsv", swahili)
    table(root / "data" / "afrimgsm" / "data" / "swa" / "test.tsv", rows)
    files = {"test": lines(root / "afrimgsm" / "test.jsonl", rows), "train": lines(root / "afrimgsm" / "train.jsonl", swahili)}
    for folder, file, protocol, shots, filters in (("direct", "afrimgsm_swa", "direct", (0,), DIRECT), ("direct_cot", "afrimgsm_cot_swa", "cot", (3,), NATIVE)):
        config = declaration(TASKS / "afrimgsm" / folder / "prompt_1" / f"{file}.yaml")
        for count in shots:
            failures += compare(f"afrimgsm_swa {protocol}", config, files, "afrimgsm_swa", f"lm-eval/afrimgsm-{protocol}", count, root / "data", filters)

    gsm8k = [json.loads(line) for line in (options.data / "gsm8k" / "test.jsonl").read_text("utf-8").splitlines()]
    # Its training problems are not in DIR; the last of the test stand in for them.
    files = {split: lines(root / "data" / "gsm8k" / f"{split}.jsonl", part) for split, part in (("test", gsm8k[:-8]), ("train", gsm8k[-8:]))}
    config = declaration(TASKS / "gsm8k" / "gsm8k.yaml")
    for shots in (5,):
        failures += compare("gsm8k", config, files, "gsm8k", "lm-eval/gsm8k", shots, root / "data", NATIVE)

    def sentences(code, split):
        return (options.data / "flores200" / split / f"{code}.{split}").read_text("utf-8").splitlines()

    for source, target in (("en", "gl"), ("gl", "en")):
        config = declaration(TASKS / "galician_bench" / "flores_gl" / f"flores_{source}-{target}.yaml")
        # Swahili in place of Galician, which DIR does not have.
        config = json.loads(json.dumps(config).replace("Galician", "Swahili").replace("glg_Latn", "swh_Latn"))
        pairs = zip(sentences("eng_Latn", "devtest"), sentences("swh_Latn", "devtest"))
        files = {"devtest": lines(root / "flores.jsonl", [{"sentence_eng_Latn": a, "sentence_swh_Latn": b} for a, b in pairs])}
        files["dev"] = files["devtest"]
        (root / "flores200" / "dev").mkdir(parents=True, exist_ok=True)
        (root / "flores200" / "devtest").mkdir(parents=True, exist_ok=True)
        for code in ("eng_Latn", "swh_Latn"):
            for split in ("dev", "devtest"):
                (root / "flores200" / split / f"{code}.{split}").write_text("\n".join(sentences(code, "devtest")) + "\n", "utf-8")
        codes = [{"en": "eng", "gl": "swh"}[code] for code in (source, target)]
        for shots in (3,):
            failures += compare(f"flores_{codes[0]}-{codes[1]}", config, files, f"flores_{codes[0]}-{codes[1]}", "lm-eval/flores", shots, root, "corpus")

    mmlu = {}
    for split in ("dev", "test"):
        with open(options.data / "mmlu" / split / f"{SUBJECT}_{split}.csv", newline="", encoding="utf-8") as source:
            mmlu[split] = list(csv.reader(source))
    rows = {split: [{"sample_id": f"{SUBJECT}/{split}/{i}", "subject": SUBJECT, "question": row[0],
                     **{f"option_{letter}": row[1 + at] for at, letter in enumerate("abcd")}, "answer": row[5]}
                    for i, row in enumerate(part)] for split, part in mmlu.items()}
    files = {split: lines(root / "data" / "global_mmlu" / "sw" / f"{split}.jsonl", part) for split, part in rows.items()}
    config = declaration(TASKS / "global_mmlu" / "full" / "sw" / f"global_mmlu_full_sw_{SUBJECT}.yaml")
    for shots in (0, 5):
        failures += compare("global_mmlu_sw", config, files, "global_mmlu_sw", "lm-eval/global-mmlu-full", shots, root / "data")

    rows = {split: [{"subject": SUBJECT, "question": row[0], "choices": str(row[1:5]), "answer": row[5]} for row in part] for split, part in mmlu.items()}
    rows["val"] = rows.pop("dev")
    for split, part in rows.items():
        table(root / "data" / "afrimmlu" / "data" / "swa" / f"{split}.tsv", part)
    files = {"validation" if split == "val" else split: lines(root / "afrimmlu" / f"{split}.jsonl", part) for split, part in rows.items()}
    config = declaration(TASKS / "afrimmlu" / "direct" / "prompt_1" / "afrimmlu_direct_swa.yaml")
    for shots in (0, 3):
        failures += compare("afrimmlu_swa", config, files, "afrimmlu_swa", "lm-eval/afrimmlu-direct", shots, root / "data")
sys.exit(failures > 0)
