#!/usr/bin/env bash
# Two experts in the shape of Llama 3.1 8B and their base on many cores, all in memory, and mergekit on the GPU beside: interleaved rounds.
# Needs `npm ci && npm run build`, 65 GB of memory for models and output (/dev/shm), and 13 GB more for mergekit.
#   bash bench/eight-billion.sh                       layergraft alone
#   MERGEKIT=/path/to/python bash bench/eight-billion.sh    with mergekit; on the GPU if nvidia-smi finds one
#   MODEL=30m ROUNDS=1 bash bench/eight-billion.sh    the same on tiny models, to try it
set -euo pipefail
cd "$(dirname "$0")/.."
data=$(mktemp -d "${MEMORY:-/dev/shm}/layergraft-XXXXXX")
trap 'rm -rf "$data"' EXIT
peer=()
if [ -n "${MERGEKIT:-}" ]; then
  peer=(--mergekit "$MERGEKIT")
  if nvidia-smi --query-gpu=name --format=csv,noheader; then peer+=(--cuda); else echo "no GPU: mergekit runs on the CPU"; fi
fi
npm run --silent bench -- methods --model "${MODEL:-8b}" --experts 2 --rounds "${ROUNDS:-3}" --data "$data" \
  --only "${ONLY:-swap,soup,TIES by tensor,Model Stock,SCE,DELLA,q4_k_m}" "${peer[@]}"
