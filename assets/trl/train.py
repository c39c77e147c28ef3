"""Trains the run of run.json on the sequences of data.jsonl, in their order. Written by layergraft.

    python train.py                                             in one process, or
    accelerate launch --config_file accelerate.yaml train.py    on as many as that file says

Resumes from the last whole state under out/state if there is one: of a checkpoint, or of every state_minutes of run.json. Writes checkpoints in Hugging Face layout, or adapters in
PEFT's, to out/checkpoint-N after N samples, and a line per step to out/log.jsonl.
"""
import json
import math
import re
import shutil
import time
from pathlib import Path

import torch
import transformers
from accelerate.utils import broadcast
from datasets import load_dataset
from safetensors.torch import load_file
from torch.distributed.tensor import distribute_tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed
from transformers.core_model_loading import revert_weight_conversion
from trl import SFTConfig, SFTTrainer

HERE = Path(__file__).parent
RUN = json.loads((HERE / "run.json").read_text())
STEPS = json.loads((HERE / "steps.json").read_text())  # of each step: samples and tokens so far, share of the rate
OUT = HERE / RUN["out"]
# auto: bfloat16 on a GPU, whose moments and weights then take half the memory
PRECISION = RUN["precision"] if RUN["precision"] != "auto" else "bfloat16" if torch.cuda.is_available() else "float32"


def load_model(dtype):
    """The model of the class that its configuration names: a wrapper around a text model is none of AutoModelForCausalLM's."""
    [name, *_] = AutoConfig.from_pretrained(RUN["base"]).architectures or [""]
    return getattr(transformers, name, AutoModelForCausalLM).from_pretrained(RUN["base"], dtype=dtype)


def plain(name):
    """A parameter's name without what wrappers put in. Files of some models have language_model.model for model.language_model."""
    name = re.sub(r"^module\.|_fsdp_wrapped_module\.|_orig_mod\.|\.default(?=\.)", "", name)
    return re.sub(r"(?<![^.])(model|language_model)\.", "", name)


def files_of(model):
    """By the name of each parameter, its names in files, where the experts of a layer may have tensors of their own."""
    def names(name, parameter):
        if RUN["lora"]:
            return [name]
        return revert_weight_conversion(model, {name: torch.empty(parameter.shape, device="meta")})

    return {plain(name): {plain(file) for file in names(name, p)} for name, p in model.named_parameters()}


def masks_of(named):
    """By parameter, which of its elements are trained, sharded as it is. A file holds a bit for each, by the parameter's name in files."""
    masks = {}
    for name, bits in load_file(HERE / "masks.safetensors").items():
        parameter = named[plain(name)]
        bits = (bits[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).bool().flatten()[: parameter.numel()]
        mask = bits.view(parameter.shape).to(parameter.device)
        if hasattr(parameter, "placements"):
            mask = distribute_tensor(mask, parameter.device_mesh, parameter.placements)
        masks[parameter] = mask
    return masks


class PartAdamW(torch.optim.AdamW):
    """AdamW that clips first, and steps only on the part of the model whose turn it is, and on what masks leave of it: weights
    whose gradients and decay are 0 from the first step on keep their bits."""

    turn, norm, masks = 0, None, {}

    def step(self, closure=None):
        every = self.param_groups
        self.param_groups = [group for group in every if self.turn % len(RUN["streams"]) in group["streams"]]
        own = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        for p in own if self.masks else []:
            p.grad.mul_(self.masks[p])
        norm = torch.nn.utils.clip_grad_norm_(own, RUN["optimizer"]["clip"] or math.inf)
        self.norm = (norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item()
        if not math.isfinite(self.norm):
            per = RUN["sequences_per_step"]
            where = f"step {self.turn + 1}, lines {self.turn * per + 1} to {(self.turn + 1) * per} of data.jsonl"
            raise FloatingPointError(f"a gradient is not finite: {where}; the state before is in out/state")
        for group in self.param_groups if self.masks else []:
            for p in (p for p in group["params"] if p.grad is not None):
                with torch.no_grad():
                    p.copy_(torch.where(self.masks[p], p * (1 - group["lr"] * group["decay"]), p))
        try:
            return super().step(closure)
        finally:
            self.param_groups = every


class Trainer(SFTTrainer):
    def create_optimizer(self, model=None):
        if self.optimizer is None:
            model = self.model if model is None else model
            named = {f: (i, p) for i, (n, p) in enumerate(model.named_parameters()) for f in self.files[plain(n)]}
            groups = [{"params": list(dict(named[plain(n)] for n in g["names"]).values()), "decay": g["decay"],
                       "weight_decay": 0.0 if RUN["masks"] else g["decay"], "streams": g["streams"]} for g in RUN["groups"]]
            o = RUN["optimizer"]
            self.optimizer = PartAdamW(groups, lr=RUN["learning_rate"], betas=o["betas"], eps=o["eps"])
            self.optimizer.masks = masks_of({f: p for f, (_, p) in named.items()}) if RUN["masks"] else {}
        return self.optimizer

    def create_scheduler(self, num_training_steps, optimizer=None):
        if self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: STEPS["rates"][min(step, RUN["steps"] - 1)])
        return self.lr_scheduler


class Steps(TrainerCallback):
    """What happens between steps: whose turn it is, the log, the loss on held-out data, checkpoints and which stay."""

    def __init__(self, held_out):
        self.held_out, self.trainer, self.loss, self.saved = held_out, None, None, time.monotonic()
        self.progress = {"best": None, "sinceBest": 0, "holdoutLoss": None}

    def optimizer(self):
        wrapped = self.trainer.optimizer
        return getattr(wrapped, "optimizer", wrapped)

    def on_train_begin(self, args, state, control, **_):
        """What was reached until the state, which the log has; lines of steps that are made again go."""
        if not (OUT / "log.jsonl").exists():
            return
        whole = [line for line in (OUT / "log.jsonl").read_text().splitlines(keepends=True) if line.endswith("\n")]
        kept = [line for line in whole if json.loads(line)["step"] <= state.global_step]
        for entry in map(json.loads, kept):
            if "holdoutLoss" in entry:
                self.reach(entry["holdoutLoss"], entry["samples"])
        if self.trainer.is_world_process_zero():
            print(f"resumes from step {state.global_step} of {RUN['steps']}", flush=True)
            (OUT / "log.jsonl.new").write_text("".join(kept))
            (OUT / "log.jsonl.new").replace(OUT / "log.jsonl")

    def on_step_begin(self, args, state, control, **_):
        self.optimizer().turn = state.global_step

    def on_step_end(self, args, state, control, **_):
        control.should_log = True

    def on_log(self, args, state, control, logs=None, **_):
        """The trainer calls it with the loss of each step, and then saves its state and stops as control says."""
        if "loss" not in (logs or {}):
            return
        # TRL adds what balances experts, which is no loss of the data's.
        step, self.loss = state.global_step, logs["loss"] - self.trainer.router_aux_loss_coef * logs.get("aux_loss", 0.0)
        samples, before = STEPS["samples"][step - 1], STEPS["samples"][step - 2] if step > 1 else 0
        reached = lambda every: before // every < samples // every
        name = {"stream": RUN["streams"][(step - 1) % len(RUN["streams"])]} if len(RUN["streams"]) > 1 else {}
        self.write({"step": step, "samples": samples, "tokens": STEPS["tokens"][step - 1], **name, "loss": self.loss,
                    "learningRate": RUN["learning_rate"] * STEPS["rates"][step - 1], "gradientNorm": self.optimizer().norm})
        if self.trainer.is_world_process_zero():
            print(f"step {step} of {RUN['steps']}, loss {self.loss:.3f}", flush=True)
        last = step == RUN["steps"]
        if self.held_out and (last or reached(RUN["evaluate_every"])):
            control.should_training_stop |= self.measure(step, samples)
        if last or control.should_training_stop or reached(RUN["checkpoint_every"]):
            self.checkpoint(step, samples)
            self.remove_others(samples)
            control.should_save = True
        control.should_save |= self.is_state_due()

    def is_state_due(self):
        """By the clock of the first process, as all of them save together."""
        due = torch.tensor(float(time.monotonic() - self.saved >= 60 * RUN["state_minutes"]), device=self.trainer.args.device)
        return broadcast(due).item() > 0

    def on_save(self, args, state, control, **_):
        self.saved = time.monotonic()

    def remove_others(self, samples):
        """Removes what the rule does not keep; the links last and best lead to what stays."""
        if not self.trainer.is_world_process_zero():
            return
        kept = {"last": f"checkpoint-{samples}"}
        if self.progress["best"] and RUN["keep"] != "last":
            kept["best"] = f"checkpoint-{self.progress['best']['samples']}"
        for name, folder in kept.items():
            link = OUT / f"{name}.new"
            link.unlink(missing_ok=True)
            link.symlink_to(folder)
            link.replace(OUT / name)
        for folder in OUT.glob("checkpoint-*"):
            if RUN["keep"] != "all" and folder.name not in kept.values():
                shutil.rmtree(folder)

    def measure(self, step, samples):
        score = self.held_out_loss()
        better = self.reach(score, samples)
        self.write({"step": step, "samples": samples, "holdoutLoss": score})
        if better and RUN["keep"] != "last":
            self.checkpoint(step, samples)
        return RUN["patience"] is not None and self.progress["sinceBest"] >= RUN["patience"]

    def reach(self, score, samples):
        """Whether a loss on held-out data is the best until now, which is noted."""
        best = self.progress["best"]
        better = best is None or score < best["score"] - RUN["least"]
        since = 0 if better else self.progress["sinceBest"] + 1
        self.progress = {"best": {"score": score, "samples": samples} if better else best, "sinceBest": since, "holdoutLoss": score}
        return better

    @torch.no_grad()
    def held_out_loss(self):
        """Mean over all targets. Every process has as many turns, as sharded models need all of them."""
        model, args, rows = self.trainer.model_wrapped, self.trainer.args, self.held_out
        micro = args.per_device_train_batch_size
        chunks = [[rows[i] for i in range(j, min(j + micro, len(rows)))] for j in range(0, len(rows), micro)]
        total = torch.zeros(2, dtype=torch.float64 if args.device.type != "mps" else torch.float32, device=args.device)
        model.eval()
        for turn in range(math.ceil(len(chunks) / args.world_size)):
            at = turn * args.world_size + args.process_index
            batch = {name: values.to(args.device) for name, values in collate(chunks[min(at, len(chunks) - 1)]).items()}
            count = (batch["labels"][:, 1:] != -100).sum()
            loss = model(**batch).loss.nan_to_num()
            if at < len(chunks):
                total += torch.stack([loss * count, count]).to(total.dtype)
        model.train()
        loss, targets = self.trainer.accelerator.reduce(total, "sum").tolist()
        return loss / targets

    def checkpoint(self, step, samples):
        facts = {"step": step, "samples": samples, "tokens": STEPS["tokens"][step - 1], "loss": self.loss,
                 "holdoutLoss": self.progress["holdoutLoss"], "configuration": RUN["configuration"]}
        kept = save(self.trainer, f"checkpoint-{samples}", facts)
        if kept:
            self.write({"step": step, "samples": samples, "kept": kept})

    def write(self, line):
        if self.trainer.is_world_process_zero():
            with (OUT / "log.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")


def kept_change(weights, base, dtype):
    """How much of the change from the base a dtype keeps: the share of changed elements, of all and of norms and biases, and the
    error as a share of the change."""
    changed = kept = errors = changes = of_norms = kept_of_norms = 0.0
    for name, exact in weights.items():
        exact = exact.float()
        before = base[name].to(exact.device).float() if base else torch.zeros_like(exact)
        change, after = exact - before, exact.to(dtype).float() - before.to(dtype).float()
        moved, stayed = change.count_nonzero().item(), (after[change != 0] != 0).sum().item()
        changed, kept = changed + moved, kept + stayed
        if exact.dim() == 1:
            of_norms, kept_of_norms = of_norms + moved, kept_of_norms + stayed
        errors += ((after - change)[change != 0].double() ** 2).sum().item()
        changes += (change.double() ** 2).sum().item()
    return {"dtype": RUN["save_dtype"], "elements": kept / changed if changed else 1.0,
            **({"norms": kept_of_norms / of_norms} if 0 < of_norms < changed else {}),
            "error": math.sqrt(errors / changes) if changes else 0.0}


def save(trainer, name, facts, reverted=()):
    """The model in Hugging Face layout, or its adapter in PEFT's, in the dtype that was asked for; whole or not at all. Returns
    how much of the change that dtype keeps, if it rounds."""
    kept = None
    weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if trainer.is_world_process_zero():
        model, dtype = trainer.accelerator.unwrap_model(trainer.model_wrapped), getattr(torch, RUN["save_dtype"])
        if reverted:
            base, names = load_model(torch.float32).state_dict(), set(map(plain, reverted))
            weights = {n: base[n] if names & trainer.files.get(plain(n), set()) else w for n, w in weights.items()}
        made = {n: w for n, w in weights.items() if w.dtype == torch.float32 and (not RUN["lora"] or "lora_" in n)}
        if made and dtype != torch.float32:
            kept = kept_change(made, None if RUN["lora"] else load_model("auto").state_dict(), dtype)
        if not RUN["lora"]:
            model.config.dtype = dtype
        folder, partial = OUT / name, OUT / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        model.save_pretrained(partial, state_dict={n: w.to(dtype) for n, w in weights.items()})
        trainer.processing_class.save_pretrained(partial)
        (partial / "training.json").write_text(json.dumps({**facts, **({"kept": kept} if kept else {})}, indent=2))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    trainer.accelerator.wait_for_everyone()
    return kept


def collate(rows):
    """Pads to the longest row. Rows of several samples have positions that begin again, which keeps the samples apart."""
    width = max(len(row["input_ids"]) for row in rows)
    fill = lambda name, value: torch.tensor([row[name] + [value] * (width - len(row[name])) for row in rows])
    batch = {"input_ids": fill("input_ids", RUN["pad"]), "labels": fill("labels", -100)}
    if RUN["packing"]:
        return {**batch, "position_ids": fill("position_ids", 0)}
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    return {**batch, "attention_mask": (torch.arange(width) < lengths[:, None]).long()}


def last_state():
    """The newest state with the file that is written last; a kill leaves folders without it."""
    def is_whole(folder):
        try:
            return bool(json.loads((folder / "trainer_state.json").read_text()))
        except (OSError, ValueError):
            return False

    states = sorted((OUT / "state").glob("checkpoint-*"), key=lambda folder: int(folder.name.rpartition("-")[2]))
    return next((str(folder) for folder in reversed(states) if is_whole(folder)), None)


def largest_share(total, most):
    return max(n for n in range(1, min(total, most) + 1) if total % n == 0)


def load(file):
    return load_dataset("json", data_files=str(HERE / file), split="train")


def arguments():
    args = SFTConfig(
        output_dir=str(OUT / "state"), seed=RUN["seed"], num_train_epochs=1, train_sampling_strategy="sequential",
        max_grad_norm=0.0, logging_strategy="no", logging_nan_inf_filter=False, save_strategy="no", save_total_limit=1,
        bf16=PRECISION == "mixed", gradient_checkpointing=RUN["gradient_checkpointing"], disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(), average_tokens_across_devices=True, remove_unused_columns=False,
        max_length=None, packing=False, loss_type="nll", dataset_kwargs={"skip_prepare_dataset": True}, report_to="none",
    )
    each, rest = divmod(RUN["sequences_per_step"], args.world_size)
    if rest:
        raise SystemExit(f"a step has {RUN['sequences_per_step']} sequences, which {args.world_size} processes cannot share evenly")
    args.per_device_train_batch_size = largest_share(each, RUN["batch"])
    args.gradient_accumulation_steps = each // args.per_device_train_batch_size
    return args


def main():
    args = arguments()
    set_seed(RUN["seed"])
    if RUN["threads"]:
        torch.set_num_threads(RUN["threads"])
    OUT.mkdir(parents=True, exist_ok=True)
    model = load_model(torch.bfloat16 if PRECISION == "bfloat16" else torch.float32)
    if RUN["lora"]:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, HERE / "adapter", is_trainable=True)
    trained = {plain(name) for group in RUN["groups"] for name in group["names"]}
    files = files_of(model)
    missing = trained.difference(*files.values())
    if missing:
        raise SystemExit(f"the model has no {', '.join(sorted(missing)[:3])}; is {RUN['base']} the base of this run?")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not trained.isdisjoint(files[plain(name)]))
    steps = Steps(load("holdout.jsonl") if RUN["holdout"] else None)
    tokenizer = AutoTokenizer.from_pretrained(RUN["base"])
    # TRL balances the experts of mixtures and writes that to their configuration; transformers only where that says so.
    text = model.config.get_text_config()
    # TRL counts the experts by a name that some families lack.
    if hasattr(text, "num_local_experts") and not hasattr(text, "num_experts"):
        type(text).attribute_map = {**type(text).attribute_map, "num_experts": "num_local_experts"}
    routing = {key: getattr(text, key) for key in ("output_router_logits", "router_aux_loss_coef") if hasattr(text, key)}
    args.router_aux_loss_coef = routing.get("router_aux_loss_coef", 0.0) if routing.get("output_router_logits") else 0.0
    steps.trainer = trainer = Trainer(model, args, data_collator=collate, train_dataset=load("data.jsonl"),
                                      processing_class=tokenizer, callbacks=[steps])
    for key, value in routing.items():
        setattr(text, key, value)
    trainer.files = files
    trainer.train(resume_from_checkpoint=last_state())
    if RUN["reverted"]:
        save(trainer, "reverted", {"reverted": RUN["reverted"], "configuration": RUN["configuration"]}, RUN["reverted"])


if __name__ == "__main__":
    main()
