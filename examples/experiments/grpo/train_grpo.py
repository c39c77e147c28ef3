"""Trains a mathematics expert by GRPO with TRL. The reward of an answer is 1 if its last number is the problem's, else 0.

    accelerate launch grpo/train_grpo.py --base models/base --data problems.jsonl --out models/grpo-math

Weights stay in float32 in memory and in the file: an update of 1e-6 is lost in bfloat16. On a GPU, products are bfloat16.
"""
import argparse
import re

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def last_number(text):
    """The last number of a text, without separators of thousands; None if it has none."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def is_right(completions, answer, **_):
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    return [float(last_number(text) == last_number(truth)) for text, truth in zip(texts, answer)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True, help="model to start from: a folder, or a model on the hub")
    parser.add_argument("--data", help="JSON Lines with question and answer (default: GSM8K's training set from the hub)")
    parser.add_argument("--out", required=True, help="folder of the expert")
    parser.add_argument("--steps", type=int, default=500, help="optimizer steps (default: 500)")
    parser.add_argument("--lr", type=float, default=1e-6, help="learning rate (default: 1e-6)")
    parser.add_argument("--prompts", type=int, default=8, help="problems for each step and process (default: 8)")
    parser.add_argument("--group", type=int, default=8, help="answers to each problem (default: 8)")
    parser.add_argument("--tokens", type=int, default=512, help="longest answer in tokens (default: 512)")
    parser.add_argument("--temperature", type=float, default=1.0, help="temperature of the answers (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    own = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(own.base)
    rows = load_dataset("json", data_files=own.data, split="train") if own.data else load_dataset("openai/gsm8k", "main", split="train")
    chat = tokenizer.chat_template is not None

    def prompt_of(row):
        text = row["question"]
        return {"prompt": [{"role": "user", "content": text}] if chat else f"Question: {text}\nAnswer:", "answer": row["answer"]}

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(own.base, dtype=torch.float32),
        reward_funcs=is_right,
        train_dataset=rows.map(prompt_of, remove_columns=rows.column_names),
        processing_class=tokenizer,
        args=GRPOConfig(
            output_dir=f"{own.out}-state",
            max_steps=own.steps,
            learning_rate=own.lr,
            lr_scheduler_type="constant",
            per_device_train_batch_size=own.group,
            gradient_accumulation_steps=own.prompts,
            num_generations=own.group,
            max_completion_length=own.tokens,
            temperature=own.temperature,
            beta=0.0,
            bf16=torch.cuda.is_available(),
            use_cpu=not torch.cuda.is_available(),
            seed=own.seed,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
        ),
    )
    trainer.train()
    trainer.save_model(own.out)


if __name__ == "__main__":
    main()
