# The daemon, with a Chromium of its own: docker build -t poolsql .
#
# Another base: docker build --build-arg BASE=registry.example/python:3.12-slim-bookworm .  (Debian's slim images, or
# anything with apt and a Python that is 3.11 or newer.) Browsers with windows: --build-arg EXTRA_PACKAGES=xvfb

ARG BASE=python:3.12-slim-bookworm

# --- The virtual environment, made where compilers and caches may stay -----------------------------------------------

FROM ${BASE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /src
RUN python3 -m venv /opt/poolsql
# The pins change seldom, so this layer is used again.
COPY requirements.lock ./
RUN /opt/poolsql/bin/pip install --no-deps -r requirements.lock
COPY requirements-dev.lock pyproject.toml README.md LICENSE ./
# What builds the wheel is pinned by the longer lock, and is not part of the image.
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --constraint requirements-dev.lock hatchling
COPY migrations ./migrations
COPY poolsql ./poolsql
RUN /opt/build/bin/hatchling build -t wheel -d /tmp/wheel \
    && /opt/poolsql/bin/pip install --no-deps /tmp/wheel/*.whl

# --- What runs -------------------------------------------------------------------------------------------------------

FROM ${BASE}
ARG EXTRA_PACKAGES=""
# Debian's own versions: a browser that is pinned is a browser without its security fixes.
# hadolint ignore=DL3008,SC2086
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        chromium fonts-liberation fonts-noto-color-emoji libatomic1 tini ${EXTRA_PACKAGES} \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/*

# The same number everywhere, so that the volume's owner stays the same from image to image.
RUN groupadd --gid 10001 poolsql \
    && useradd --uid 10001 --gid 10001 --create-home --shell /usr/sbin/nologin poolsql \
    && install -d -m 700 -o poolsql -g poolsql /var/lib/poolsql \
    && install -d -m 1777 /tmp/.X11-unix

COPY --from=packages /opt/poolsql /opt/poolsql
WORKDIR /opt/poolsql
COPY scheduler.py ./

ENV PATH=/opt/poolsql/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    LANG=C.UTF-8 \
    POOLSQL_DATA_DIR=/var/lib/poolsql
USER 10001:10001
VOLUME /var/lib/poolsql
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 \
    CMD ["python", "scheduler.py", "healthcheck"]
# Browsers leave orphans; tini reaps them and passes signals on to the daemon alone.
ENTRYPOINT ["/usr/bin/tini", "--", "python", "scheduler.py"]
CMD ["daemon"]
