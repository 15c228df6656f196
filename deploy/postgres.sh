#!/bin/sh
# Runs once, when the database server is created. The replicas get a role that owns their database and has no other rights.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'END'
\getenv password DATABASE_PASSWORD
CREATE ROLE graph_agent LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE graph_agent OWNER graph_agent;
REVOKE ALL ON DATABASE graph_agent FROM PUBLIC;
END
