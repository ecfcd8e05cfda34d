#!/usr/bin/env bash
# The real servers that `make test-real` runs, each in an environment of its own outside the checkout:
# ${CRASHCART_REAL:-${XDG_CACHE_HOME:-~/.cache}/crashcart/real}/{sglang-0.5.9,sglang-0.5.23,vllm-0.32.0}, about 8 GB.
# An environment that is already there is used as it is; a half-built one is built anew.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${CRASHCART_REAL:-${XDG_CACHE_HOME:-$HOME/.cache}/crashcart/real}

if [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v python3.11 >/dev/null; then
  echo "install-all: SKIPPED. The real servers need Linux x86_64 and Python 3.11 on the PATH; this is $(uname -sm)" >&2
  echo "install-all: with $(command -v python3.11 || echo 'no python3.11'). The tests of real servers will skip." >&2
  exit 0
fi

works() { # a quick look whether the engine's package is there and loads
  [ -x "$1/bin/python" ] && "$1/bin/python" -c "import torch, transformers; from importlib.metadata import version; version('$2')" \
    >/dev/null 2>&1
}

provide() { # NAME PACKAGE COMMAND...: leaves a usable environment in $root/NAME
  local dir="$root/$1" package=$2
  shift 2
  if [ -e "$dir/.complete" ]; then
    echo "install-all: $dir is there"
  elif works "$dir" "$package"; then
    touch "$dir/.complete"
    echo "install-all: $dir is there and works"
  else
    echo "install-all: building $dir (2 to 4 minutes)"
    rm -rf "$dir"
    "$@" "$dir"
    works "$dir" "$package" || { echo "install-all: $dir was built but does not import" >&2; exit 1; }
    touch "$dir/.complete"
  fi
}

mkdir -p "$root"
exec 9>"$root/.lock"
flock 9 # two runs at once would build the same environment twice

provide sglang-0.5.9 sglang "$here/install-sglang.sh" 0.5.9
provide sglang-0.5.23 sglang "$here/install-sglang.sh" 0.5.23
provide vllm-0.32.0 vllm "$here/install-vllm.sh"
