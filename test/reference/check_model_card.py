"""Reads model cards of layergraft with huggingface_hub, whose classes check what the hub's server checks first.

    python check_model_card.py OUTPUT/README.md ...

Prints each card's metadata; ends with an error for a field that huggingface_hub or the hub does not know.
"""

import re
import sys

from huggingface_hub import ModelCard
from huggingface_hub.utils import validate_repo_id

RELATIONS = {"adapter", "merge", "quantized", "finetune"}
KNOWN = {"license", "license_name", "license_link", "base_model", "base_model_relation", "library_name", "pipeline_tag", "tags", "datasets"}

for path in sys.argv[1:]:
    # Errors are raised, not ignored; the text is read as the hub reads it.
    card = ModelCard.load(path, ignore_metadata_errors=False)
    data = card.data.to_dict()
    assert set(data) <= KNOWN, set(data) - KNOWN
    for name in data.get("base_model", []):
        validate_repo_id(name)
        assert name.count("/") <= 1
    for name in data.get("datasets", []):
        validate_repo_id(name)
    assert data["base_model_relation"] in RELATIONS
    assert "layergraft" in data["tags"] and all(isinstance(tag, str) for tag in data["tags"])
    if "license" in data:
        assert re.fullmatch(r"[a-z0-9.-]+", data["license"])
        assert data["license"] != "other" or "license_name" in data
    # What is written again is what was read.
    assert ModelCard(str(card), ignore_metadata_errors=False).data.to_dict() == data
    print(path, data)
