#!/usr/bin/env bash
# What only a GPU can show, in under ten minutes and without a network: run it on a machine with an NVIDIA card.
#
#   scripts/gpu_check.sh [PYTHON] [OUT]
#
# PYTHON holds the stack of constraints.txt (default: python3). OUT (default: gpu-check) gets gpu_check.json,
# gpu_check.md and a log of each part. Exit code 1 if any part failed. What the parts are: docs/bench.md.
# ARCSLIM_GPU_CHECK_SMALL=1 runs every part in small, on a CPU too: to try the script, not the card.
set -u
case ${1:-} in -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;; esac
python=$(command -v -- "${1:-python3}") || { echo "error: there is no ${1:-python3}" >&2; exit 1; }
case $python in */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;; esac
out=$(mkdir -p "${2:-gpu-check}" && cd "${2:-gpu-check}" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
exec "$python" -m scripts.gpu_check --out "$out"
