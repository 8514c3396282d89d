#!/usr/bin/env bash
# Builds the image of the Dockerfile with docker or buildah, whichever is there and works.
#
#   scripts/build_image.sh [--stack vllm|cu130|cu128] [--base IMAGE] [--tag NAME] [--uid N] [--gid N]
#                          [--pip-conf FILE] [--ca FILE] [--engine docker|buildah] [-- ENGINE ARGUMENTS…]
#
# What is not given is the Dockerfile's own default. --pip-conf and --ca: a mirror's pip.conf and certificate; they are mounted
# for the build and are in no layer. What follows -- goes to `docker build` or `buildah bud` as it is.
# Exit codes: 0 built, 2 an argument is wrong, 1 no engine, else the engine's.
set -euo pipefail

usage() { # MESSAGE: what was wrong, and the lines above
  echo "error: $1" >&2
  sed -n '3,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

stack='' base='' tag='' uid='' gid='' pip_conf='' ca='' engine=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --) shift; break ;;
    --stack | --base | --tag | --uid | --gid | --pip-conf | --ca | --engine)
      [ $# -ge 2 ] && [ -n "$2" ] || usage "$1 wants a value"
      name=${1#--}
      printf -v "${name/-/_}" '%s' "$2"
      shift 2
      ;;
    *) usage "unknown argument: $1" ;;
  esac
done

case $stack in '' | vllm | cu130 | cu128) ;; *) usage "--stack $stack is none of vllm, cu130, cu128" ;; esac
for number in "$uid" "$gid"; do
  case $number in *[!0-9]*) usage "--uid and --gid are numbers, not $number" ;; esac
done
for number in "$uid" "$gid"; do
  [ "${#number}" -le 9 ] || usage "--uid and --gid are at most 999999999, not $number"
done
[ -z "$uid" ] || [ "$((10#$uid))" -ne 0 ] || usage "--uid $uid is root, which the image does not run as"
for file in "$pip_conf" "$ca"; do
  [ -z "$file" ] || { [ -f "$file" ] && [ -r "$file" ]; } || usage "$file is no file that can be read"
done
# The build runs in the checkout: what was named from here must be found from there.
[ -z "$pip_conf" ] || pip_conf=$(realpath "$pip_conf")
[ -z "$ca" ] || ca=$(realpath "$ca")

works() { # ENGINE: docker is only good for something where its daemon answers
  command -v "$1" >/dev/null 2>&1 || return 1
  [ "$1" != docker ] || timeout 20 docker info >/dev/null 2>&1
}

case $engine in
  '')
    if works docker; then engine=docker
    elif works buildah; then engine=buildah
    else
      echo "error: neither docker (with its daemon running) nor buildah is here" >&2
      echo "  install Docker Engine, or buildah: apt-get install buildah; docs/docker.md says how it builds without a daemon" >&2
      exit 1
    fi
    ;;
  docker | buildah)
    works "$engine" || {
      echo "error: $engine is not here, or its daemon does not answer" >&2
      echo "  leave --engine out to take the one that works; docs/docker.md says how to build without a daemon" >&2
      exit 1
    }
    ;;
  *) usage "--engine $engine is neither docker nor buildah" ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' arcslim/__init__.py)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || revision+=-changed
default_stack=$(sed -n 's/^ARG STACK=//p' Dockerfile | head -n 1)

arguments=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
[ -z "$base" ] || arguments+=(--build-arg "BASE_IMAGE=$base")
[ -z "$stack" ] || arguments+=(--build-arg "STACK=$stack")
[ -z "$uid" ] || arguments+=(--build-arg "USER_UID=$uid")
[ -z "$gid" ] || arguments+=(--build-arg "USER_GID=$gid")
[ -z "$pip_conf" ] || arguments+=(--secret "id=pip.conf,src=$pip_conf")
[ -z "$ca" ] || arguments+=(--secret "id=ca,src=$ca")
arguments+=(--tag "${tag:-arcslim:$version-${stack:-$default_stack}}")

case $engine in
  docker) export DOCKER_BUILDKIT=1; command=(docker build) ;;
  buildah) command=(buildah bud) ;;
esac
printf 'building with %s\n' "$engine"
exec "${command[@]}" "${arguments[@]}" "$@" .
