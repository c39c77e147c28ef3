#!/usr/bin/env bash
# Trains the experts of plan.yaml with TRL on a GPU, and scores their merges there. Needs what README.md beside this file makes, layergraft,
# and a python3 with TRL (`train --engine trl` writes its requirements.txt). Run it again to resume.
#   bash gpu.sh        everything
#   bash gpu.sh try    two steps of each training, one seed and eight problems, in a folder of its own
set -euo pipefail
on_gpu=(-e 's/^name: .*/name: gemma-gpu/'
  -e 's/^  common:$/&\n    engine: trl\n    trl: { precision: mixed }/'
  -e 's|^evaluate:$|&\n  backend: "serve:python3 ../smollm2/score.py {model} {port}"|'
  -e 's/^executor: .*/executor: { cores: 2, total_cores: 8 }/')
plan=gpu.yaml
if [ "${1:-}" = try ]; then
  plan=gpu-try.yaml
  on_gpu+=(-e 's/^name: .*/name: gemma-gpu-try/' -e 's/steps: [0-9]*/steps: 2/' -e 's/warmup: 5/warmup: 0/'
    -e 's/limit: [0-9]*/limit: 8/' -e 's/^    - "\(.*\)"$/    - { task: "\1", limit: 8 }/' -e 's/draws: 10/draws: 1/' -e '/^    grid:/d'
    -e 's/\[1, 2, 3\]/[1]/' -e '/-[23], seed/d' -e 's/, pairs: \*pairs//' -e '/^ *pairs:/d')
fi
sed "${on_gpu[@]}" plan.yaml > "$plan"
layergraft experiment "$plan" --allow-code
