# The service alone: Kafka and PostgreSQL are elsewhere (docker-compose.yml), so that neither Java nor Spark is needed.
# Any image with Python >= 3.11, its venv module and Debian's apt-get will do.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
# The core is compiled for the image; what compiles it stays behind in this stage.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml hatch_build.py constraints.txt LICENSE README.md ./
COPY schemas schemas
COPY commitlog commitlog
COPY pyspark_commitlog pyspark_commitlog
RUN python3 -m venv /opt/installing && /opt/installing/bin/pip install --no-cache-dir --constraint constraints.txt uv \
 && python3 -m venv --without-pip /opt/commitlog \
 && /opt/installing/bin/uv pip install --no-cache --python /opt/commitlog --constraint constraints.txt \
      --build-constraint constraints.txt '.[duckdb,metrics,registry,tracing,ui]'

FROM ${PYTHON_IMAGE}
RUN useradd --system --uid 10001 --home-dir /var/lib/commitlog --create-home commitlog
COPY --from=build /opt/commitlog /opt/commitlog
ENV PATH=/opt/commitlog/bin:$PATH PYTHONUNBUFFERED=1 COMMITLOG_HOME=/var/lib/commitlog
USER commitlog
WORKDIR /var/lib/commitlog
VOLUME /var/lib/commitlog
ENTRYPOINT ["commitlog"]
CMD ["serve"]
