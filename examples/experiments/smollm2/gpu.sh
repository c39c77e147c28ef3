#!/usr/bin/env bash
# Trains six experts with TRL on a GPU, in mixed precision and in float32, and scores their merges. Needs what README.md beside this file
# makes, layergraft, and a python3 with TRL (`train --engine trl` writes its requirements.txt). Run it again to resume.
#   bash gpu.sh        everything
#   bash gpu.sh try    two steps of each training and eight problems, in a folder of its own
# The GGUF file may come in parts: split -b 48M FILE.gguf model.gguf.
set -euo pipefail
plan=gpu.yaml
if [ "${1:-}" = try ]; then
  plan=gpu-try.yaml
  sed -e 's/^name: .*/name: smollm2-gpu-try/' -e 's/samples: 3000/steps: 2/' -e 's/steps: 400/steps: 2/' \
    -e 's/tasks: \[spanish.yaml\]/tasks: [{ task: spanish.yaml, limit: 8 }]/' gpu.yaml > "$plan"
fi
[ -d smollm2 ] || compgen -G '*.gguf' > /dev/null || cat model.gguf.?? > model.gguf
[ -d smollm2 ] || layergraft export ./*.gguf --format hf --type bfloat16 --out smollm2
layergraft experiment "$plan" --allow-code
