#!/usr/bin/env bash
# Clients made from the OpenAPI documents by tools of others: openapi-python-client (PyPI) and openapi-typescript (npm).
# clients.sh install                prints where the tools are: a directory in the cache of the user, made once
# clients.sh python DIR URL         makes clients of v1.json, preview.json and current.json in DIR and does the main job with each
# clients.sh typescript DIR URL     the same in TypeScript, compiled strictly
. "$(dirname "$0")/common.sh"
python_client=0.29.1
typescript_client=7.13.0
fetch=0.17.0
typescript=5.9.3
name=clients-$python_client-$typescript_client
place=$cache/$name
here=$(cd "$(dirname "$0")/clients" && pwd)

tools() {
  venv "$name/python" "openapi-python-client==$python_client"
  [ ! -e "$place/whole" ] || return 0
  echo '{"type":"module"}' >"$place/package.json"
  npm --prefix "$place" install --silent --no-audit --no-fund --save-exact \
    "openapi-typescript@$typescript_client" "openapi-fetch@$fetch" "typescript@$typescript"
  touch "$place/whole"
}

case "${1-}" in
install)
  once tools >&2
  echo "$place"
  ;;
python)
  cd "$2"
  for family in v1 preview current; do
    # Where it leaves something out other than bodies in YAML and text it says so, and this fails.
    PATH=$place/python/bin:$PATH openapi-python-client generate --path "$family.json" --output-path "$family" --meta none >"$family.log" 2>&1
    if grep -E "Unable to|Failure to|Attempted|not found|Could not find" "$family.log"; then exit 1; fi
    "$place/python/bin/python" "$here/job.py" "$family" "$3"
  done
  ;;
typescript)
  cd "$2"
  cp "$here/job.ts" .
  ln -sfn "$place/node_modules" node_modules
  echo '{"type":"module"}' >package.json
  echo '{"compilerOptions": {"strict": true, "target": "es2022", "module": "nodenext", "moduleResolution": "nodenext",
    "lib": ["es2022", "dom"], "outDir": "out"}, "files": ["job.ts"]}' >tsconfig.json
  for family in v1 preview current; do
    node node_modules/openapi-typescript/bin/cli.js "$family.json" --default-non-nullable false -o "$family.d.ts" >"$family.log" 2>&1 ||
      { cat "$family.log"; exit 1; }
  done
  node node_modules/typescript/bin/tsc
  node out/job.js "$3"
  ;;
*) sed -n 2,5p "$0" >&2; exit 1 ;;
esac
