#!/bin/sh
# PostgreSQL's image runs this when it creates its data: the service owns a database, but is not a superuser and makes no roles.
set -eu
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set service="$POSTGRES_SERVICE_PASSWORD" --set reader="$POSTGRES_READER_PASSWORD" <<'END'
CREATE ROLE commitlog_projector NOLOGIN;
CREATE ROLE commitlog_reader NOLOGIN;
CREATE ROLE commitlog_writer NOLOGIN;
CREATE ROLE commitlog LOGIN PASSWORD :'service';
CREATE ROLE reader LOGIN PASSWORD :'reader' IN ROLE commitlog_reader;
CREATE DATABASE commitlog OWNER commitlog;
END
