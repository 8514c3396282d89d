# arcslim and its whole stack, for one NVIDIA card. `scripts/build_image.sh` builds it; docs/docker.md says how to run it.
#
#   STACK    torch          CUDA   vLLM     driver   pins
#   vllm     torch 2.14.0   13.0   0.33.0   >= 580   constraints-vllm.txt     the default
#   cu130    torch 2.14.1   13.0   none     >= 580   constraints.txt
#   cu128    torch 2.10.0   12.8   none     >= 525   constraints-cu128.txt    for older drivers
#
# CUDA's libraries come with torch's wheels, so that the base needs none: Debian 12 or newer, or Ubuntu 24.04.
ARG BASE_IMAGE=docker.io/library/debian:bookworm-slim

FROM ${BASE_IMAGE} AS base
# The compilers stay in the image: Triton, torch.compile and FlashInfer compile while a run starts.
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        ca-certificates g++ gcc libc6-dev python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 is needed: choose another BASE_IMAGE")'

# The stack, from pyproject.toml and the pins alone: a change of the code does not install it again.
# A mirror and its certificate are mounted for this one command and are in no layer (pip.conf: cert = /run/secrets/ca).
FROM base AS stack
ARG STACK=vllm
WORKDIR /build
COPY pyproject.toml constraints*.txt ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=ca \
    --mount=type=cache,target=/root/.cache/pip \
    case "${STACK}" in \
        vllm) pins=constraints-vllm.txt; extra=vllm ;; \
        cu130) pins=constraints.txt; extra= ;; \
        cu128) pins=constraints-cu128.txt; extra= ;; \
        *) echo "STACK=${STACK} is none of vllm, cu130, cu128" >&2; exit 2 ;; \
    esac \
    && python3 -c 'import sys, tomllib; project = tomllib.load(sys.stdin.buffer)["project"]; \
        print(*project["dependencies"], *project["optional-dependencies"].get(sys.argv[1], ()), sep="\n")' \
        "${extra}" < pyproject.toml > requirements.txt \
    && python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --quiet pip==26.3 \
    && /opt/venv/bin/pip install --quiet -c "${pins}" -r requirements.txt \
    && /opt/venv/bin/pip check

FROM base AS wheel
WORKDIR /build
COPY . .
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=ca \
    --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/build \
    && /opt/build/bin/pip install --quiet pip==26.3 \
    && /opt/build/bin/pip wheel --quiet --no-deps --build-constraint constraints.txt -w /wheel .

FROM base AS final
ARG USER_UID=1000
ARG USER_GID=1000
# `--non-unique`: Ubuntu has a user 1000 already. The volumes take their owner from these folders.
RUN if [ "${USER_UID}" -eq 0 ]; then echo "USER_UID=0 is root; choose another" >&2; exit 2; fi \
    && groupadd --non-unique --gid "${USER_GID}" arcslim \
    && useradd --no-log-init --non-unique --uid "${USER_UID}" --gid "${USER_GID}" --create-home arcslim \
    && install -d -o "${USER_UID}" -g "${USER_GID}" /cache /work
COPY --from=stack /opt/venv /opt/venv
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    /opt/venv/bin/pip install --quiet --no-cache-dir --no-index --no-deps /wheel/*.whl
# What is downloaded or compiled outlives the container on the volume /cache; runs and data lie on /work.
ENV PATH=/opt/venv/bin:${PATH} \
    HOME=/home/arcslim \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/cache \
    HF_HOME=/cache/huggingface \
    TRITON_CACHE_DIR=/cache/triton \
    TORCHINDUCTOR_CACHE_DIR=/cache/inductor \
    UNSLOTH_COMPILE_LOCATION=/cache/unsloth \
    CUDA_CACHE_PATH=/cache/cuda \
    VLLM_CACHE_ROOT=/cache/vllm \
    FLASHINFER_WORKSPACE_BASE=/cache/flashinfer \
    UNSLOTH_DISABLE_STATISTICS=1 \
    VLLM_NO_USAGE_STATS=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /work
VOLUME ["/cache", "/work"]
USER ${USER_UID}:${USER_GID}
ENTRYPOINT ["arcslim"]
CMD ["--help"]
ARG STACK=vllm
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="arcslim" \
      org.opencontainers.image.description="GRPO, SFT and HER on ARC tasks, on one NVIDIA card" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.arcslim.stack="${STACK}"
