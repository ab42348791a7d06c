# The service alone: Kafka and PostgreSQL are elsewhere (docker-compose.yml), so that neither Java nor Spark is needed.
FROM python:3.12-slim AS build
# The core is compiled for the image; what compiles it stays behind in this stage.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml hatch_build.py constraints.txt LICENSE README.md ./
COPY schemas schemas
COPY commitlog commitlog
COPY pyspark_commitlog pyspark_commitlog
RUN pip install --no-cache-dir --constraint constraints.txt uv \
 && python -m venv --without-pip /opt/commitlog \
 && uv pip install --no-cache --python /opt/commitlog --constraint constraints.txt --build-constraint constraints.txt '.[duckdb,metrics,ui]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/commitlog --create-home commitlog
COPY --from=build /opt/commitlog /opt/commitlog
ENV PATH=/opt/commitlog/bin:$PATH PYTHONUNBUFFERED=1 COMMITLOG_HOME=/var/lib/commitlog
USER commitlog
WORKDIR /var/lib/commitlog
VOLUME /var/lib/commitlog
ENTRYPOINT ["commitlog"]
CMD ["serve"]
