#!/usr/bin/env bash
# What only a GPU can show, in under fifteen minutes and without a network: run it on a machine with an NVIDIA card.
#
#   scripts/gpu_check.sh [PYTHON] [OUT]
#
# PYTHON holds the stack of constraints.txt (default: python3); logs and run folders go to OUT (default: gpu-check).
# It uses the embedded model only. Each part is run even if one before it failed; the exit code is 1 if any did.
set -u
python=${1:-python3}
out=$(mkdir -p "${2:-gpu-check}" && cd "${2:-gpu-check}" && pwd)
cd "$(dirname "$0")/.." || exit 1
export HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
failed=0

part() { # NAME SECONDS COMMAND…
  local name=$1 limit=$2 began=$SECONDS
  shift 2
  if timeout "$limit" "$@" >"$out/$name.log" 2>&1; then
    echo "ok      $name ($((SECONDS - began)) s)"
  else
    echo "FAILED  $name (exit $?, $((SECONDS - began)) s): $out/$name.log"
    tail -n 15 "$out/$name.log"
    failed=1
  fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || { echo "no NVIDIA GPU here"; exit 1; }
"$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda, torch.cuda.is_available())'

# GPU tests: 4-bit loading, fp32 adapter, the KL reference, a resumed run with paged_adamw_8bit.
part gpu-tests 300 "$python" -m pytest -q -m gpu tests
# Learning on the card: the reward of one easy task must rise in 20 steps with the optimizer of the presets.
part canary 240 "$python" -m arcslim grpo --preset canary --set optim.optim=paged_adamw_8bit --run-dir "$out/canary"
# Resuming with the paged optimizer (reported to crash elsewhere: bitsandbytes #782, #1381, #1708).
part resume 120 "$python" -m arcslim grpo --preset canary --set optim.optim=paged_adamw_8bit --max-steps 30 \
  --run-dir "$out/canary" --resume newest
exit $failed
