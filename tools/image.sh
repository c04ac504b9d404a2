#!/usr/bin/env bash
# Usage: image.sh NAME...      e.g. image.sh spike-base vllm-cpu
# Makes each image, unless one of the same inputs is there already, pushes it to the registry on this machine and writes
# its reference by digest to build/images/NAME.digest.
#
# An image is a folder tools/images/NAME or tests/doubles/NAME with a file image.env:
#   repository=vllm/vllm-openai   its name in the registry
#   base=spike-base               (optional) the image it is made from, made first
#   inputs="requirements/a.txt"   (optional) more files or folders it is made of, from the root of the checkout
# and either build.sh, called with the tag to make, or a Dockerfile, whose context is the folder and the inputs and whose
# build argument BASE is the base. The tag is a hash of all these.
. "$(dirname "$0")/lib.sh"
export DOCKER_BUILDKIT=0 # Debian's engine comes without buildx

definition() {
  local folder
  for folder in "tools/images/$1" "tests/doubles/$1"; do
    [ -f "$root/$folder/image.env" ] && { echo "$folder"; return; }
  done
  die "unknown image '$1'; there are: $(cd "$root" && dirname tools/images/*/image.env tests/doubles/*/image.env | xargs -n 1 basename | tr '\n' ' ')"
}

# Reads image.env into the caller's variables repository, base and inputs.
describe() {
  folder=$(definition "$1") || exit 1
  repository='' base='' inputs=''
  # shellcheck disable=SC1090
  . "$root/$folder/image.env"
  [ -n "$repository" ] || die "$folder/image.env: repository is missing"
}

# One hash over the names, modes and contents of all that the image is made of.
key() {
  local folder repository base inputs
  describe "$1"
  { [ -z "$base" ] || key "$base"
    # shellcheck disable=SC2086  # inputs is a list
    (cd "$root" && find "$folder" $inputs -name __pycache__ -prune -o -type f -print0 | sort -z |
      while IFS= read -r -d '' file; do stat -c '%n %A' "$file"; sha256sum <"$file"; done)
  } | sha256sum | cut -c1-12
}

tag_of() {
  local folder repository base inputs
  describe "$1"
  echo "$registry/$repository:$(key "$1")"
}

digest_of() { docker image inspect -f '{{range .RepoDigests}}{{println .}}{{end}}' "$1" | grep -m 1 "^${1%:*}@"; }

in_registry() {
  local path=${1#*/}
  python3 - "http://$registry/v2/${path%@*}/manifests/${path#*@}" <<'PYTHON'
import sys
import urllib.request

kind = "application/vnd.docker.distribution.manifest.v2+json"
request = urllib.request.Request(sys.argv[1], method="HEAD", headers={"Accept": kind})
try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)
except OSError:
    sys.exit(1)
PYTHON
}

make_image() {
  local name=$1 tag=$2 folder repository base inputs context base_tag=''
  describe "$name"
  [ -z "$base" ] || base_tag=$(tag_of "$base")
  context=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$context'" EXIT
  cp -r "$root/$folder/." "$context"
  # shellcheck disable=SC2086
  for input in $inputs; do cp -r "$root/$input" "$context"; done
  find "$context" -name __pycache__ -prune -exec rm -rf {} +
  if [ -f "$context/build.sh" ]; then
    (cd "$context" && BASE=$base_tag bash "$root/$folder/build.sh" "$tag") || die "$folder/build.sh failed"
  else
    docker build --quiet ${base_tag:+--build-arg "BASE=$base_tag"} -t "$tag" "$context" 2>&1 >/dev/null |
      grep -v -e DEPRECATED -e 'BuildKit' -e '^ *Install the buildx' -e '^$' >&2 || true
  fi
  rm -rf "$context"
  docker image inspect "$tag" >/dev/null 2>&1 || die "$name was not built"
}

image() {
  local name=$1 folder repository base inputs tag begin=$SECONDS digest
  docker version >/dev/null 2>&1 || die "no container engine answers; make docker starts one"
  describe "$name"
  [ -z "$base" ] || image "$base"
  # again: the call above has read another image.env only into variables of its own
  tag=$(tag_of "$name")
  (
    only_one "image-$name"
    if ! docker image inspect "$tag" >/dev/null 2>&1 && ! docker pull -q "$tag" >/dev/null 2>&1; then
      say "making $name"
      (make_image "$name" "$tag") || exit
    fi
    if ! digest=$(digest_of "$tag") || ! in_registry "$digest"; then
      docker push -q "$tag" >/dev/null || die "could not push $tag"
      digest=$(digest_of "$tag")
    fi
    mkdir -p "$build/images"
    echo "$digest" >"$build/images/$name.digest"
    say "$name is $digest ($((SECONDS - begin)) s)"
  ) || exit 1
}

[ $# -gt 0 ] || die "usage: image.sh NAME..."
for name in "$@"; do image "$name"; done
