#!/bin/sh
# Prepares Temporal's two databases: creates what is missing and brings the schemas up to the version of these tools.
# Safe to repeat, so it runs before every start of the server: an existing database is left alone, and set-up keeps a
# schema version that is newer than the one it is asked for.
#
# The tools read where the database is from SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD. The password is
# never an argument: arguments are visible to everybody on the host.
set -eu

: "${SQL_PLUGIN:?is required, for example postgres12}"
: "${SQL_HOST:?is required}"
: "${SQL_USER:?is required}"
: "${SQL_PASSWORD:?is required}"

prepare() {
  database=$1
  schema=$2
  echo "schema: $database"
  temporal-sql-tool --db "$database" create-database
  # Version 0.0 makes only the tables in which the versions are kept; the update below applies every step from there.
  temporal-sql-tool --db "$database" setup-schema --version 0.0
  # The schema comes from inside the tool, so that it can't differ from the tool's version.
  temporal-sql-tool --db "$database" update-schema --schema-name "$schema"
}

prepare temporal postgresql/v12/temporal
prepare temporal_visibility postgresql/v12/visibility
echo "schema: done"
