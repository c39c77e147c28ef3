"""Scores and writes texts with transformers, on a GPU where there is one: python3 score.py MODEL PORT. Plans start it for each model."""
import json
import queue
import sys
import threading
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL, PORT = sys.argv[1], int(sys.argv[2])
MOST_AT_ONCE = 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Weights and products are float32, as in layergraft's own engine.
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).to(DEVICE).eval()
tokenizer = AutoTokenizer.from_pretrained(MODEL)
waiting = queue.Queue()


@torch.inference_mode()
def score(prompts, count):
    """Of each prompt: the log-probability of each token but the first, and the `count` likeliest tokens after each."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=DEVICE)
    # What is filled up comes after the prompts, so causal attention does not see it.
    logprobs = model(ids).logits.log_softmax(-1)
    own = logprobs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0].tolist()
    top = logprobs.topk(count)
    values, tokens = top.values.tolist(), top.indices.tolist()
    for i, prompt in enumerate(prompts):
        places = [list(zip(tokens[i][k], values[i][k])) for k in range(len(prompt))]
        yield own[i][: len(prompt) - 1], places


@torch.inference_mode()
def write(prompts, most):
    """The likeliest tokens after each prompt, at most so many; the token that ends a text is the last."""
    longest = max(map(len, prompts))
    # What is filled up comes before the prompts, and is not attended to.
    ids = [[*[0] * (longest - len(prompt)), *prompt] for prompt in prompts]
    seen = [[*[0] * (longest - len(prompt)), *[1] * len(prompt)] for prompt in prompts]
    settings = {"max_new_tokens": most, "do_sample": False, "pad_token_id": tokenizer.eos_token_id}
    found = model.generate(torch.tensor(ids, device=DEVICE), attention_mask=torch.tensor(seen, device=DEVICE), **settings)
    for row in found[:, longest:].tolist():
        end = tokenizer.eos_token_id
        yield row[: row.index(end) + 1] if end in row else row


def work():
    """Scores what waits together, then writes what waits."""
    while True:
        batch = [waiting.get()]
        while len(batch) < MOST_AT_ONCE and not waiting.empty():
            batch.append(waiting.get())
        for run, own in (score, [one for one in batch if one[0] is score]), (write, [one for one in batch if one[0] is write]):
            if not own:
                continue
            try:
                found = run([prompt for _run, prompt, _count, _future in own], max(count for _run, _prompt, count, _future in own))
                for (_run, _prompt, count, future), result in zip(own, found):
                    future.set_result(result[:count] if run is write else result)
            except Exception as error:
                for _run, _prompt, _count, future in own:
                    future.set_exception(error)


def ask(run, prompt, count):
    future = Future()
    waiting.put((run, prompt, count, future))
    return future.result()


def complete(request):
    """An answer in the form of OpenAI's completions: the likeliest tokens, or with one new token also log-probabilities."""
    prompt, count, most = request["prompt"], request.get("logprobs") or 1, request.get("max_tokens", 1)
    ids = tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else prompt
    if most > 1:
        if request.get("temperature", 1) > 0:
            raise ValueError("this server takes the likeliest tokens: set temperature to 0")
        tokens = ask(write, ids, most)
        whole = tokenizer.decode(tokens, skip_special_tokens=True)
        stops = request.get("stop") or []
        stops = [stops] if isinstance(stops, str) else stops
        text = whole[: min([whole.index(stop) for stop in stops if stop in whole], default=len(whole))]
        is_whole = text != whole or tokenizer.eos_token_id in tokens
        return {
            "choices": [{"text": text, "finish_reason": "stop" if is_whole else "length"}],
            "usage": {"prompt_tokens": len(ids), "completion_tokens": len(tokens)},
        }
    own, places = ask(score, ids, count)
    named = [{tokenizer.decode(token): value for token, value in reversed(place[:count])} for place in places]
    token, value = places[-1][0]
    shown = [*ids, token] if request.get("echo") else [token]
    texts = [tokenizer.decode(one) for one in shown]
    logprobs = {
        "tokens": texts,
        "token_logprobs": [None, *own, value] if request.get("echo") else [value],
        "top_logprobs": [None, *named] if request.get("echo") else named[-1:],
    }
    return {
        "choices": [{"text": "".join(texts), "finish_reason": "length", "logprobs": logprobs}],
        "usage": {"prompt_tokens": len(ids), "completion_tokens": 1},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        known = {"/health": {}, "/v1/models": {"data": [{"id": MODEL}]}}
        self.answer(200 if self.path in known else 404, known.get(self.path, {}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions":
            return self.answer(404, {})
        try:
            self.answer(200, complete(request))
        except Exception as error:
            self.answer(400, {"error": {"message": f"{type(error).__name__}: {error}"}})

    def log_message(self, *_):
        pass


threading.Thread(target=work, daemon=True).start()
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
