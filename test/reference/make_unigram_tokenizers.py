"""Trains Unigram vocabularies with SentencePiece, for check_gguf_tokenizers.js, and converts them as transformers does.

    pip install sentencepiece tokenizers transformers protobuf
    python test/reference/make_unigram_tokenizers.py FLORES/devtest OUT

The last 800 lines of each language are for training; the check uses the first ones.
"""

import base64
import json
import sys
from pathlib import Path

import sentencepiece
from transformers.convert_slow_tokenizer import import_protobuf

flores, out = map(Path, sys.argv[1:3])
out.mkdir(parents=True, exist_ok=True)
text = out / "training.txt"
lines = [file.read_text("utf8").strip().split("\n")[-800:] for file in sorted(flores.iterdir())]
text.write_text("\n".join(sum(lines, [])) + "\n", "utf8")

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}


def train(name, **options):
    prefix = str(out / name)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=prefix, model_type="unigram", vocab_size=8000, character_coverage=0.999,
        minloglevel=2, **options,
    )
    proto = import_protobuf().ModelProto()
    proto.ParseFromString(Path(prefix + ".model").read_bytes())
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    pieces = [[piece.piece, piece.score] for piece in proto.pieces]
    return pieces, [{"type": "Precompiled", "precompiled_charsmap": charsmap}] if charsmap else []


def write(name, vocab, unk, normalizers, pre_tokenizer, special):
    ids = {token: i for i, (token, _) in enumerate(vocab)}
    added = [
        {"id": ids[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for token in special
    ]
    normalizer = normalizers[0] if len(normalizers) == 1 else {"type": "Sequence", "normalizers": normalizers}
    model = {"type": "Unigram", "unk_id": unk, "vocab": vocab, "byte_fallback": False}
    parts = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": METASPACE}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(added, key=lambda one: one["id"])}
    (out / f"{name}.json").write_text(json.dumps({**tokenizer, **parts, "model": model}, ensure_ascii=False), "utf8")


pieces, charsmap = train("nfkc", normalization_rule_name="nmt_nfkc")
special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
xlmr = [[token, 0.0] for token in special[:4]] + pieces[3:] + [["<mask>", 0.0]]
# As XLMRobertaConverter writes it now and wrote it before, and as xlm-roberta-base was published.
write("xlm-r", xlmr, 3, [*charsmap, STRIP, SPACES], METASPACE, special)
write("xlm-r-earlier", xlmr, 3, [*charsmap, SPACES], METASPACE, special)
write("xlm-r-published", xlmr, 3, charsmap, SPLIT, special)

pieces, charsmap = train("t5", normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
extra = [f"<extra_id_{i}>" for i in range(99, -1, -1)]
t5 = pieces + [[token, 0.0] for token in extra]
write("t5", t5, 2, [*charsmap, STRIP, SPACES], METASPACE, ["<pad>", "</s>", "<unk>", *extra])
write("t5-published", t5, 2, charsmap, SPLIT, ["<pad>", "</s>", "<unk>", *extra])

pieces, charsmap = train("identity", normalization_rule_name="identity")
write("identity", pieces, 0, [STRIP, SPACES], METASPACE, ["<unk>", "<s>", "</s>"])
