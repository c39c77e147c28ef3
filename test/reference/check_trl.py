"""Checks runs that layergraft hands to TRL: trained by their own train.py, they must log the losses, norms and rates, and
end with the weights, that plain PyTorch has in test/fixtures/train/runs (full, LoRA, two streams), here, in two processes,
and when they are stopped half-way and started again. Then whole runs, from run file and text to checkpoint, padded and
packed, once by the engine of layergraft and once by TRL: the curves must be one.

Not part of `npm test`. Needs torch, transformers, peft, trl, accelerate, datasets. Run from the project's folder, after a
build, on a CPU:
    python test/reference/check_trl.py
"""
import json, os, shutil, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "test/fixtures/train/runs"
HAND_OVER = """
import { openModelSource } from "%(dist)s/engine/index.js";
import { planLora, resolveSelection } from "%(dist)s/train/index.js";
import { writeTrlRun } from "%(dist)s/train/trl/index.js";
const { base, folder, name, run } = JSON.parse(process.argv[1]);
const { settings: s, steps, accumulation, batches } = run;
const source = await openModelSource(base);
const select = (text) => resolveSelection(text, { tensors: source.tensors, layers: 3 });
const asBatch = ({ ids, labels }) => {
  const [rows, time] = [ids.length, ids[0].length];
  const next = labels.flatMap((row) => row.map((_, t) => (t + 1 < time && row[t + 1] >= 0 ? row[t + 1] : -1)));
  const flat = ids.flat();
  return {
    rows, time, ids: Int32Array.from(flat), labels: Int32Array.from(next), segments: new Int32Array(flat.length).fill(1),
    positions: Int32Array.from(flat, (_, i) => i %% time), samples: rows, tokens: flat.length, name: "batch",
  };
};
// Streams take turns; each has the batches of its own steps.
const streams = (s.parts ?? [undefined]).map((part, i, { length: count }) => {
  const own = batches.filter((_, at) => Math.floor(at / accumulation) %% count === i).map(asBatch);
  let at = 0;
  const list = { name: `stream-${i}`, next: () => own[at++], position: () => at, seek: (to) => { at = to; } };
  return { batches: list, trained: part === undefined ? undefined : select(part) };
});
const lora = s.rank === undefined ? undefined : planLora(
  select(`${s.targets.join(" and ")} of layers ${s.layers.join(", ")}`), source,
  { rank: s.rank, alpha: s.alpha, rank_stabilised: true, dropout: 0 },
);
const schedule = { kind: s.schedule, warmup: s.warmup, decay_share: s.decay_share ?? 0.2, decay_shape: "1-sqrt", floor: 0 };
const optimizer = { betas: s.betas, eps: s.eps, decay: s.decay, decay_all: false, clip: s.clip };
await writeTrlRun({
  folder, cluster: {},
  training: {
    run: { name, accumulation, optimizer, seed: 1, checkpoints: { every_samples: 12, keep: "all" }, save_dtype: "float32", packing: false },
    settings: { learningRate: s.lr, steps, schedule, evaluateEvery: 12 },
    source, streams, lora, trained: select(s.parts ? "layers" : "all"),
    holdout: batches.slice(0, 2).map(asBatch), revert: name === "full" ? select("layers 1") : undefined,
  },
});
"""


def base_with_tokenizer(folder):
    shutil.copytree(RUNS / "base", folder)
    vocabulary = {f"t{i}": i for i in range(48)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="t0")), pad_token="t0",
                                        bos_token="t1", eos_token="t2")
    tokenizer.save_pretrained(folder)
    return folder


def run(command, folder, **extra):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HOME": str(folder / "cache"), "TOKENIZERS_PARALLELISM": "false", **extra}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    return done.returncode, done.stdout + done.stderr


def hand_over(name, base, folder):
    golden = json.loads((RUNS / f"{name}.json").read_text())
    code = HAND_OVER % {"dist": (ROOT / "dist").as_uri()}
    given = json.dumps({"base": str(base), "folder": str(folder), "name": name, "run": golden})
    done = subprocess.run(["node", "--input-type=module", "-e", code, given], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if name == "lora":  # the golden's own first factors
        shutil.copy(RUNS / "lora-start/adapter_model.safetensors", folder / "adapter")
    return golden


ENGINE = """
import { join } from "node:path";
import { parseRun, prepareRun, batchSource, trainRun } from "%(dist)s/train/index.js";
import { writeTrlRun } from "%(dist)s/train/trl/index.js";
const { text, folder } = JSON.parse(process.argv[1]);
const run = { ...parseRun(text), out: join(folder, "engine") };
await trainRun({ run, folder });
const { source, settings, trained, lora, streams, close } = await prepareRun({ run, folder });
await writeTrlRun({
  folder: join(folder, "trl"), packing: run.packing,
  run: {
    source, settings, trained, lora, streams: streams.map(({ name, openAt }) => ({ batches: batchSource(name, openAt) })),
    accumulation: run.accumulation, checkpointEvery: run.checkpoints.every_samples, keep: run.checkpoints.keep,
    saveDType: run.save_dtype, seed: run.seed, configuration: run,
  },
});
close();
"""


def whole_run(root, name, fields):
    """A Llama of a million parameters that learns to add, from text."""
    folder = root / f"whole-{name}"
    folder.mkdir()
    torch.manual_seed(3)
    words = ["[bos]", "[eos]", "[pad]", "+", "=", "is", "what", "?", *map(str, range(40))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[pad]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="[bos]", eos_token="[eos]", pad_token="[pad]").save_pretrained(folder / "base")
    AutoModelForCausalLM.from_config(LlamaConfig(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=384, vocab_size=len(words),
        max_position_embeddings=128, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1)).save_pretrained(folder / "base")
    rows = [{"q": f"what is {a} + {b} ?" + " ?" * ((a * b) % 9), "a": f"{a} + {b} = {a + b}"} for a in range(20) for b in range(20)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_file = {"base": str(folder / "base"), "out": "out", "data": {"sets": [{"source": str(folder / "sums.jsonl"), "map": {"prompt": "q", "response": "a"}}],
                "template": "{prompt} {response}"}, "optimizer": {"lr": 2e-3}, "batch": 4, "accumulation": 2, "steps": 40, "sequence_length": 64, **fields}
    code = ENGINE % {"dist": (ROOT / "dist").as_uri()}
    given = json.dumps({"text": json.dumps(run_file), "folder": str(folder)})
    done = subprocess.run(["node", "--input-type=module", "-e", code, given], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    status, output = run([sys.executable, "train.py"], folder / "trl")
    assert status == 0, output
    curves = [[json.loads(line) for line in (folder / at / "log.jsonl").read_text().splitlines()] for at in ("engine", "trl/out")]
    ours, theirs = ([line for line in curve if "loss" in line] for curve in curves)
    assert len(ours) == len(theirs) == 40
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(ours, theirs))
    assert worst < 1e-3, worst
    assert all(a["samples"] == b["samples"] and a["tokens"] == b["tokens"] for a, b in zip(ours, theirs))
    assert max(abs(a["gradientNorm"] / b["gradientNorm"] - 1) for a, b in zip(ours, theirs)) < 1e-2
    assert ours[-1]["loss"] < ours[0]["loss"] / 1.5
    print(f"ok  whole run, {name}: loss {ours[0]['loss']:.3f} to {ours[-1]['loss']:.3f}, the curves at most {worst:.1e} apart")


def check(name, golden, folder, base):
    log = [json.loads(line) for line in (folder / "out/log.jsonl").read_text().splitlines()]
    steps = [line for line in log if "loss" in line]
    assert [line["step"] for line in steps] == list(range(1, golden["steps"] + 1)), steps
    for line, wanted in zip(steps, golden["log"]):
        assert abs(line["loss"] - wanted["loss"]) < 2e-6, (line, wanted)
        assert abs(line["gradientNorm"] / wanted["norm"] - 1) < 1e-5, (line, wanted)
        assert abs(line["learningRate"] / wanted["rate"] - 1) < 1e-9, (line, wanted)
    last = folder / "out" / f"checkpoint-{steps[-1]['samples']}"
    stored = load_file(last / ("adapter_model.safetensors" if name == "lora" else "model.safetensors"))
    final = load_file(RUNS / f"{name}.safetensors")
    start = load_file(base / "model.safetensors")
    worst = max((stored[n] - final[n]).abs().max().item() for n in final)
    assert worst < 2e-6, worst
    for n in set(stored) - set(final):  # frozen
        assert torch.equal(stored[n], start[n]), n
    held = [line for line in log if "holdoutLoss" in line]
    assert len(held) >= 2 and held[-1]["holdoutLoss"] > 0, held
    model = AutoModelForCausalLM.from_pretrained(last if name != "lora" else base)
    if name == "full":
        reverted = load_file(folder / "out/reverted/model.safetensors")
        for n in stored:
            assert torch.equal(reverted[n], start[n] if ".layers.1." in n else stored[n]), n
    assert json.loads((last / "training.json").read_text())["step"] == golden["steps"]
    print(f"ok  {name}: {len(steps)} steps, weights within {worst:.1e}, held-out loss {held[0]['holdoutLoss']:.4f} to {held[-1]['holdoutLoss']:.4f}")


with tempfile.TemporaryDirectory() as root:
    root = Path(root)
    base = base_with_tokenizer(root / "base")
    only = sys.argv[1:] or ["full", "lora", "partition", "whole"]
    if "whole" in only:
        whole_run(root, "padded", {})
        whole_run(root, "packed", {"packing": True})
        whole_run(root, "LoRA, packed", {"packing": True, "method": "lora", "lora": {"rank": 8, "alpha": 16}, "optimizer": {"lr": 3e-3}})
    for name in [name for name in only if name != "whole"]:
        golden = hand_over(name, base, root / name)
        code, output = run([sys.executable, "train.py"], root / name)
        assert code == 0, output
        check(name, golden, root / name, base)
    if "partition" in only:  # a step of 6 sequences on two processes, whole copies of the model
        golden = hand_over("partition", base, root / "two")
        code, output = run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py"], root / "two")
        assert code == 0, output
        check("partition", golden, root / "two", base)
    if "full" in only:  # stopped after its second checkpoint, then started again
        golden = hand_over("full", base, root / "again")
        entry = root / "again/train.py"
        whole = entry.read_text()
        entry.write_text(whole.replace("control.should_save = True", "control.should_save = True\n            control.should_training_stop |= step > 6"))
        code, output = run([sys.executable, "train.py"], root / "again")
        assert code == 0, output
        entry.write_text(whole)
        code, output = run([sys.executable, "train.py"], root / "again")
        assert code == 0, output
        check("full", golden, root / "again", base)
