"""A row of the ladder by transformers, PEFT or lm-eval: python peer.py TASK QUESTION. Weights are in bfloat16 in memory, as stored."""
import json, sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

task, given = sys.argv[1], json.loads(sys.argv[2])
torch.set_num_threads(2)


def load():
    model = AutoModelForCausalLM.from_pretrained(given["base"], dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(given["base"])


def generate(model, tokenizer):
    inputs = tokenizer(given["prompt"], return_tensors="pt")
    model.generate(**inputs, max_new_tokens=given["tokens"], do_sample=False)


def rows(name):
    return [json.loads(line) for line in open(given[name])]


def score_text(model, tokenizer, prompt, continuation):
    ids = tokenizer(prompt + continuation, return_tensors="pt").input_ids
    start = len(tokenizer(prompt).input_ids)
    with torch.inference_mode():
        logprobs = model(ids).logits[0, :-1].log_softmax(-1)
    return logprobs[start - 1 :].gather(1, ids[0, start:, None]).sum().item()


if task == "generate":
    generate(*load())
elif task == "adapter":
    from peft import PeftModel
    model, tokenizer = load()
    generate(PeftModel.from_pretrained(model, given["adapter"]), tokenizer)
elif task == "score":
    score_text(*load(), given["prompt"], " return a + b")
elif task == "eval":
    from lm_eval import evaluator
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    config = {
        "task": "quiz",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": given["quiz"]}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}} Answer:",
        "doc_to_choice": "{{options}}",
        "doc_to_target": "{{['A','B','C','D'].index(answer)}}",
        "metric_list": [{"metric": "acc"}],
    }
    model, tokenizer = load()
    evaluator.simple_evaluate(HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8), tasks=[config], task_manager=TaskManager())
elif task == "train":
    from peft import LoraConfig, get_peft_model
    model, tokenizer = load()
    tuned = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW([p for p in tuned.parameters() if p.requires_grad], lr=1e-4)
    for row in rows("train")[:2]:
        ids = tokenizer(row["prompt"] + row["response"], return_tensors="pt").input_ids[:, :64]
        tuned(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
