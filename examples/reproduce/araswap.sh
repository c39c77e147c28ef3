#!/bin/sh
# Composes AraSwap's public adapters of Qwen3 8B (Kashirskiy et al., 2026): each layer from the expert that leads by 15%, all others
# from the base, as one adapter. The card names layers 1, 9 and 16 for the Arabic expert and 23 for the cultural one, and publishes no
# merge; its criterion is not defined there, so layergraft's shares may choose others. inspect shows which.
#
#   sh araswap.sh
#
# Headers and changes are streamed from the hub: the base's 16.4 GB are read to measure how large the changes are beside it.
set -eu
base=Qwen/Qwen3-8B
adapters=mariklolik228/AraSwap-Qwen3-8B-Adapters

cat > araswap.yaml <<END
method: dominant
base: $base
models: ["$base+$adapters/arabic_expert", "$base+$adapters/math_expert", "$base+$adapters/cultural_expert"]
margin: 0.15
otherwise: base
outside: base
END
layergraft merge araswap.yaml --as adapter --out araswap
layergraft inspect "$base+araswap"
