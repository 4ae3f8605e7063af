#!/usr/bin/env bash
# Tools that read OpenAPI documents, from PyPI: openapi-spec-validator, and schemathesis, which makes requests from them.
# openapi.sh install     prints where they are: a virtual environment in the cache of the user, made once
. "$(dirname "$0")/common.sh"
validator=0.9.0
schemathesis=4.32.5
name=openapi-$validator-$schemathesis

[ "${1-}" = install ] || die "install"
once venv "$name" "openapi-spec-validator==$validator" "schemathesis==$schemathesis" >&2
echo "$cache/$name"
