"""Opens every tokenizer that layergraft writes with transformers, and compares chats and greedy answers.

Not part of `npm test`. Needs torch, transformers and jinja2. Run from the project's folder, after a build:
    python test/reference/check_written_tokenizers.py
Result with transformers 5.23.0, tokenizers 0.23.3, torch 2.15.0: all equal.
"""
import json, subprocess, tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

logging.disable_progress_bar()
logging.set_verbosity_error()
CLI = Path(__file__).parents[2] / "dist" / "cli" / "main.js"


def layergraft(*args, cwd=None):
    return subprocess.run(["node", CLI, *args], cwd=cwd, check=True, capture_output=True, text=True).stdout


folder = Path(tempfile.mkdtemp())
layergraft("example", folder)
recipes = {
    "swap": "method: swap\ntask: math-expert\nlanguage: swahili-expert\n",
    "union": "method: soup\nmodels: [math-expert, swahili-expert]\nbase: base\nvocabulary: union\n",
    "nested": (folder / "recipe.yaml").read_text(),
}
for name, text in recipes.items():
    (folder / f"{name}.yaml").write_text(text)
    layergraft("merge", f"{name}.yaml", "--out", name, cwd=folder)
layergraft("export", "swap", "--format", "onnx", "--out", "onnx", cwd=folder)
layergraft("train", "run.yaml", cwd=folder)

problems = [json.loads(line)["question"] for line in (folder / "swahili.jsonl").read_text().splitlines()[:20]]
(folder / "prompts.json").write_text(json.dumps(problems))
for name in ["base", "math-expert", "swahili-expert", *recipes, "math-run/last", "onnx"]:
    tokenizer = AutoTokenizer.from_pretrained(folder / name)
    for text in [*problems, "Mtu 2½ naïve 日本 🙂"]:
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text, (name, text)
    if name == "onnx":
        continue
    model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
    ours = json.loads(layergraft("generate", name, "--prompts", "prompts.json", "--chat", "--max-new-tokens", "8", "--json", cwd=folder))
    for problem, answer in zip(problems, ours["answers"] if isinstance(ours, dict) else ours):
        chat = [{"role": "user", "content": problem}]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        new = model.generate(**ids, max_new_tokens=8, do_sample=False)[0][ids["input_ids"].shape[1]:]
        assert tokenizer.decode(new, skip_special_tokens=True) == answer["text"], (name, problem, answer)
    print(f"{name}: {len(problems)} answers equal")
