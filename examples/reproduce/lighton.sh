#!/bin/sh
# Makes the published layer swap of LightOn (Lasbordes et al., 2026, arXiv 2605.26735) and compares it with what they published.
#
#   sh lighton.sh SW      or ES, FR, DE
#
# Weights are streamed from the hub: about 80 GB of reads and 16.4 GB on the disk for the swap. diff ends with status 1 if a tensor
# differs; explain then names the recipe that gives the published bits, or says that there is none.
set -u
language=${1:?pass a language: SW, ES, FR or DE}

layergraft swap --task lightonai/Qwen3-8B-EN --language "lightonai/Qwen3-8B-$language" --layers 0-12,23-35 --outside language --out "swap-$language" &&
layergraft diff "swap-$language" "lightonai/Qwen3-8B-$language-Swap"
layergraft explain "lightonai/Qwen3-8B-$language-Swap" --from lightonai/Qwen3-8B-EN --from "lightonai/Qwen3-8B-$language" --base Qwen/Qwen3-8B-Base
