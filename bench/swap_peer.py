"""The script people write by hand: load both state dictionaries, swap layers, save. A peer for the benchmark only."""
import os, re, resource, sys
import torch
from safetensors.torch import load_file, save_file

task_dir, language_dir, out_dir, bottom, top, layers = *sys.argv[1:4], *map(int, sys.argv[4:7])
task = load_file(f"{task_dir}/model.safetensors")
language = load_file(f"{language_dir}/model.safetensors")
for name in task:
    match = re.search(r"layers\.(\d+)\.", name)
    if match is None:
        task[name] = ((task[name].float() + language[name].float()) / 2).to(task[name].dtype)
    elif int(match[1]) < bottom or int(match[1]) > layers - 1 - top:
        task[name] = language[name]
os.makedirs(out_dir, exist_ok=True)
save_file(task, f"{out_dir}/model.safetensors", metadata={"format": "pt"})
with open(os.environ["PEAK_MEMORY_REPORT"], "w") as report:
    report.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
