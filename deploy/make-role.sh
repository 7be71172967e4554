#!/bin/sh
# The role that serves, and its database: no superuser, whom row-level security would not hold back.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$RECALL_PASSWORD" --username postgres <<'SQL'
CREATE ROLE recall LOGIN PASSWORD :'password';
CREATE DATABASE recall OWNER recall;
SQL
