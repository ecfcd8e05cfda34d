#!/usr/bin/env bash
# The real SGLang server on a machine without a GPU (Linux x86_64, Python 3.11). Usage: install-sglang.sh VERSION DIR
# It serves a tiny local model on the CPU: /health, /generate and all its processes are real. About 2.8 GB, 2-4 minutes.
set -euo pipefail
version=$1 dir=$2 here=$(cd "$(dirname "$0")" && pwd)

PIP_CONSTRAINT=$(mktemp)
export PIP_CONSTRAINT
trap 'rm -f "$PIP_CONSTRAINT"' EXIT
echo 'torch==2.13.0' >"$PIP_CONSTRAINT" # keeps pip from a CUDA build of torch

python3.11 -m venv "$dir"
pip() { "$dir/bin/pip" install -q --disable-pip-version-check "$@"; }
common=(torch==2.13.0 numpy orjson psutil pybase64 requests triton pillow msgspec pyzmq IPython aiohttp einops fastapi
  uvloop gguf interegular openai-harmony==0.0.4 outlines==0.1.11 partial_json_parser prometheus-client python-multipart
  scipy setproctitle tiktoken py-spy soundfile nvidia-ml-py dill)

# sglang itself without its dependencies: they demand CUDA packages that a CPU neither needs nor can use.
case $version in
0.5.23)
  pip "${common[@]}" transformers==5.19.0 starlette 'uvicorn>=0.51' compressed-tensors==0.18.0 'llguidance>=1.7.6,<2' \
    openai==2.8.0 sentencepiece==0.2.1 xgrammar==0.2.7 apache-tvm-ffi==0.1.11 xxhash zstandard watchfiles python-dateutil
  pip --no-deps sglang==0.5.23 torchvision==0.28.0 timm==1.0.25
  ;;
0.5.9)
  pip "${common[@]}" transformers==4.57.1 pydantic uvicorn compressed-tensors 'llguidance<0.8.0,>=0.7.11' openai==2.6.1 \
    sentencepiece xgrammar==0.1.27 'apache-tvm-ffi<0.2,>=0.1.5'
  pip --no-deps sglang==0.5.9 torchvision==0.28.0 timm==1.0.16 torchao==0.9.0
  ;;
*)
  echo "install-sglang: known versions are 0.5.9 and 0.5.23, not $version" >&2
  exit 2
  ;;
esac

packages="$dir/lib/python3.11/site-packages"
# The published torchvision expects a CUDA torch: two decorators fail beside a CPU one.
sed -i '/^@torch.library.register_fake("torchvision::/d' "$packages/torchvision/_meta_registrations.py"
# The published sgl_kernel is CUDA only; a plain Llama on the CPU calls nothing of it, but imports it.
cp -r "$here/sgl_kernel" "$packages/"
