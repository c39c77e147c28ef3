"""Checks that the fake hub of the tests is what Python's huggingface_hub takes for the hub, and that layergraft and Python
share a cache and repositories.

Not part of `npm test`. Needs torch, transformers and huggingface_hub. Run from the project's folder, after a build:
    python test/reference/check_fake_hub.py
"""
import json, os, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
work = Path(tempfile.mkdtemp())
server = subprocess.Popen(["node", str(ROOT / "test/reference/serve_fake_hub.js")], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)
hub = json.loads(server.stdout.readline())
# The fake does not speak Xet, whose client uploads all files otherwise.
os.environ.update(HF_ENDPOINT=hub["endpoint"], HF_TOKEN=hub["token"], HF_HOME=str(work / "python"), HF_HUB_DISABLE_XET="1",
                  HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")

import torch
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (EntryNotFoundError, GatedRepoError, HfHubHTTPError, RepositoryNotFoundError,
                                    RevisionNotFoundError)
from transformers import AutoModelForCausalLM, LlamaConfig, logging

logging.disable_progress_bar()
logging.set_verbosity_error()
api = HfApi()


def ask(*fields):
    """Requests since the last call; with fields, pushes a folder to the fake first."""
    server.stdin.write("\t".join(map(str, fields)) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def contents(requests):
    return [one for one in requests if one.startswith("GET") and ("/resolve/" in one or "signature" in one)]


def layergraft(*arguments, **environment):
    run = subprocess.run(["node", str(ROOT / "dist/cli/main.js"), *map(str, arguments)], capture_output=True, text=True,
                         env={**os.environ, **environment}, cwd=work)
    assert run.returncode == 0, run.stderr
    return run.stdout


def same_files(folder, other, names=None):
    names = names or sorted(path.name for path in Path(folder).iterdir())
    for name in names:
        assert (Path(folder) / name).read_bytes() == (Path(other) / name).read_bytes(), name
    return len(names)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return type(error).__name__
    raise AssertionError(f"{kind} was not raised")


def done(what):
    print(f"ok  {what}")


config = LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
                     num_key_value_heads=2, vocab_size=512, max_position_embeddings=64)
for seed, name in enumerate(["task", "language"]):
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config).save_pretrained(work / name, max_shard_size="200KB")
ids = torch.arange(16)[None]


def logits(source):
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(source).eval()(ids).logits


# Python uploads to the fake, and downloads from it.
url = api.create_repo("org/task", private=True)
assert url == f"{hub['endpoint']}/org/task", url
assert raises(HfHubHTTPError, lambda: api.create_repo("org/task"))
api.create_repo("org/task", exist_ok=True)
assert raises(HfHubHTTPError, lambda: api.create_repo("someone/task"))
assert raises(HfHubHTTPError, lambda: HfApi(token=hub["readToken"]).create_repo("org/other"))
commit = api.upload_folder(repo_id="org/task", folder_path=work / "task", commit_message="First")
assert sum(one.startswith("PUT") for one in ask()) > 3
done("create_repo and upload_folder, also in parts")
again = api.upload_folder(repo_id="org/task", folder_path=work / "task")
assert not any(one.startswith("PUT") for one in ask())
done("upload_folder again sends nothing")
assert api.whoami()["name"] == "tester"
info = api.model_info("org/task")
assert (info.sha, info.private) == (commit.oid, True)
assert {"config.json", "model.safetensors.index.json"} <= set(api.list_repo_files("org/task"))
tree = {entry.path: entry for entry in api.list_repo_tree("org/task")}
assert tree["config.json"].size == (work / "task/config.json").stat().st_size
first = next(name for name in tree if name.endswith(".safetensors"))
assert tree[first].lfs.size == (work / "task" / first).stat().st_size
done("whoami, model_info, list_repo_files, list_repo_tree")
for name in ["config.json", first]:
    same_files(work / "task", Path(hf_hub_download("org/task", name)).parent, [name])
done("hf_hub_download of a small and a large file")
count = same_files(work / "task", snapshot_download("org/task"))
done(f"snapshot_download, {count} files")
api.create_branch("org/task", branch="next")
api.upload_file(repo_id="org/task", path_or_fileobj=b"text", path_in_repo="notes.txt", revision="next")
assert Path(hf_hub_download("org/task", "notes.txt", revision="next")).read_text() == "text"
assert "notes.txt" not in api.list_repo_files("org/task")
api.delete_file("notes.txt", repo_id="org/task", revision="next")
assert raises(HfHubHTTPError, lambda: api.upload_file(repo_id="org/task", path_or_fileobj=b"late", path_in_repo="late",
                                                      parent_commit="0" * 40))
done("create_branch, upload_file, delete_file, parent_commit")
ask("org/gated", work / "task", "gated")
no_token = HfApi(token=False)
errors = [
    raises(RepositoryNotFoundError, lambda: api.model_info("org/nothing")),
    raises(RepositoryNotFoundError, lambda: no_token.model_info("org/task")),
    raises(RevisionNotFoundError, lambda: hf_hub_download("org/task", "config.json", revision="v9")),
    raises(EntryNotFoundError, lambda: hf_hub_download("org/task", "nothing.json")),
    raises(GatedRepoError, lambda: hf_hub_download("org/gated", "config.json", token=False)),
]
done("errors: " + ", ".join(errors))

# What Python fetched is not fetched again.
api.create_repo("org/language")
api.upload_folder(repo_id="org/language", folder_path=work / "language")
for name in ["org/task", "org/language"]:
    snapshot_download(name)
ask()
layergraft("inspect", "org/task", "--download")
layergraft("swap", "--task", "org/task", "--language", "org/language", "--download", "--out", "merged", "--force")
assert contents(ask()) == [], "layergraft fetched what Python had fetched"
layergraft("inspect", "org/task", HF_HUB_OFFLINE="1")
done("the cache that Python filled is layergraft's, also offline")

# What layergraft fetched opens in transformers offline.
own = str(work / "layergraft")
layergraft("inspect", "org/task", "--download", HF_HOME=own)
script = ("import sys, torch; from transformers import AutoModelForCausalLM as M; "
          "torch.save(M.from_pretrained('org/task').eval()(torch.arange(16)[None]).logits.detach(), sys.argv[1])")
ask()
offline = {**os.environ, "HF_HOME": own, "HF_HUB_OFFLINE": "1"}
subprocess.run([sys.executable, "-c", script, str(work / "logits.pt")], env=offline, check=True)
assert ask() == []
assert torch.equal(torch.load(work / "logits.pt"), logits(work / "task"))
done("transformers opens what layergraft downloaded offline, with equal logits")
subprocess.run([sys.executable, "-c", "from huggingface_hub import snapshot_download as s; s('org/task')"],
               env={**os.environ, "HF_HOME": own}, check=True)
fetched = contents(ask())
assert not any("signature" in one for one in fetched), fetched
done(f"snapshot_download after layergraft fetches no weights again ({len(fetched)} small files)")

# What layergraft pushes, Python downloads.
result = json.loads(layergraft("push", "merged", "org/merged", "--json"))
same = [name for name in result["sent"] if name != "layergraft.json"]
snapshot = snapshot_download("org/merged")
same_files(work / "merged", snapshot, same)
assert api.model_info("org/merged").sha == result["commit"]
assert torch.equal(logits("org/merged"), logits(work / "merged"))
done(f"a push of layergraft, {len(result['sent'])} files, opens in transformers with equal logits")
ask()
api.upload_folder(repo_id="org/merged", folder_path=work / "merged", ignore_patterns=["layergraft.json"])
assert not any(one.startswith("PUT") for one in ask())
again = json.loads(layergraft("push", "merged", "org/merged", "--json"))
assert again["sent"] == [], again["sent"]
done("neither sends again what the other pushed")
server.stdin.close()
server.wait()
