#!/usr/bin/env bash
# Tools that read OpenAPI documents, from PyPI: openapi-spec-validator, and schemathesis, which makes requests from them.
# openapi.sh install     prints where they are: a virtual environment in the cache of the user, made once
set -euo pipefail
cache=${WEIR_SERVICES_CACHE:-$HOME/.cache/weir-services}
validator=0.9.0
schemathesis=4.32.5

[ "${1-}" = install ] || { echo "usage: openapi.sh install" >&2; exit 1; }
place=$cache/openapi-$validator-$schemathesis
mkdir -p "$cache"
exec 9>"$cache/openapi.lock"
flock 9
if [ ! -e "$place/whole" ]; then
  rm -rf "$place"
  python3 -m venv "$place" >&2
  "$place/bin/pip" install --quiet --disable-pip-version-check \
    "openapi-spec-validator==$validator" "schemathesis==$schemathesis" >&2
  touch "$place/whole"
fi
echo "$place"
