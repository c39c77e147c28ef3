"""Checks runs that layergraft hands to TRL: trained by their own train.py, they must log the losses, norms and rates, and
end with the weights, that plain PyTorch has in test/fixtures/train/runs (full, LoRA, two streams), here, in two processes,
and when they are stopped half-way and started again.

Not part of `npm test`. Needs torch, transformers, peft, trl, accelerate, datasets. Run from the project's folder, after a
build, on a CPU:
    python test/reference/check_trl.py
"""
import json, os, shutil, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

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
  select(`${s.targets.join(" and ")} of layers ${s.layers.join(", ")}`), source.tensors,
  { rank: s.rank, alpha: s.alpha, rankStabilised: true, dropout: 0 },
);
const schedule = { kind: s.schedule, warmup: s.warmup, decayShare: s.decay_share ?? 0.2, decayShape: "1-sqrt", floor: 0 };
const optimizer = { betas: s.betas, epsilon: s.eps, decay: s.decay, decayAll: false, clip: s.clip };
await writeTrlRun({
  folder, packing: false, cluster: {},
  run: {
    source, streams, lora, trained: select(s.parts ? "layers" : "all"), accumulation, seed: 1, keep: "all", saveDType: "float32",
    settings: { learningRate: s.lr, steps, optimizer, schedule, evaluateEvery: 12 }, checkpointEvery: 12, configuration: { name },
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
    only = sys.argv[1:] or ["full", "lora", "partition"]
    for name in only:
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
