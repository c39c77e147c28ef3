"""What transformers makes of texts and chats: tokens, prompts, log-probabilities, greedy answers. A peer for the comparison only."""
import json, sys
import torch, transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.logging.set_verbosity_error()
given = json.load(sys.stdin)
tokenizer = AutoTokenizer.from_pretrained(given["folder"])
model = AutoModelForCausalLM.from_pretrained(given["folder"], dtype=torch.float32).eval()


def logprobs(text):
    """Of each token, after BOS, or EOS where there is none."""
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    ids = [start] + tokenizer(text, add_special_tokens=False)["input_ids"]
    logits = torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)
    return [logits[i - 1, ids[i]].item() for i in range(1, len(ids))]


def answer(chat):
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=given["newTokens"], do_sample=False)
    tokens = found[0, ids.shape[1]:].tolist()
    return tokens[:-1] if tokens and tokens[-1] == model.generation_config.eos_token_id else tokens


with torch.no_grad():
    print(json.dumps({
        "version": transformers.__version__,
        "tokens": [tokenizer(line, add_special_tokens=False)["input_ids"] for line in given["lines"]],
        "rendered": [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in given["chats"]],
        "logprobs": [logprobs(text) for text in given["texts"]],
        "answers": [answer(chat) for chat in given["chats"]] if given["newTokens"] else [],
    }))
