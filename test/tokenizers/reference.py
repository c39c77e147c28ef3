"""What Hugging Face `tokenizers` makes of lines: their ids and the texts of these, for each tokenizer.json of a folder.

python test/tokenizers/reference.py FOLDER LINES.json OUT
"""
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

folder, lines_file, out = map(Path, sys.argv[1:])
lines = json.loads(lines_file.read_text(encoding="utf8"))
out.mkdir(parents=True, exist_ok=True)
for file in sorted(folder.glob("*/tokenizer.json")):
    target = out / f"{file.parent.name}.json"
    if target.exists():
        continue
    try:
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
        value = {"ids": ids, "texts": tokenizer.decode_batch(ids, skip_special_tokens=False)}
    except Exception as error:  # a tokenizer that the reference does not read, either
        value = {"error": str(error)}
    target.write_text(json.dumps(value, ensure_ascii=False), encoding="utf8")
