#!/usr/bin/env bash
# Keycloak with the realm of weir-realm.json, in memory. The built server is kept in the cache; each DIR gets a copy of hard links.
# keycloak.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

# artifact G:A:V:TYPE[:CLASSIFIER]: fetches one file with Maven; prints where it lies.
artifact() {
  local g a v t k at; IFS=: read -r g a v t k <<<"$1"
  at=$cache/m2/${g//.//}/$a/$v/$a-$v${k:+-$k}.$t
  [ -s "$at" ] || mvn -q -B -Dmaven.repo.local="$cache/m2" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get -Dtransitive=false -Dartifact="$1" >&2
  [ -s "$at" ] && echo "$at"
}

version=${KEYCLOAK_VERSION:-26.7.3}
home=$cache/keycloak-$version
realm=${KEYCLOAK_REALM:-$(cd "$(dirname "$0")" && pwd)/weir-realm.json}

install() {
  [ -e "$home/.built" ] && return
  local zip; zip=$(artifact "org.keycloak:keycloak-quarkus-dist:$version:zip")
  rm -rf "$home" && (cd "$cache" && { unzip -q "$zip" || python3 -m zipfile -e "$zip" .; })
  chmod +x "$home"/bin/*.sh
  "$home/bin/kc.sh" build --db=dev-mem --cache=local >"$home/build.log" 2>&1 || { tail "$home/build.log" >&2; return 1; }
  touch "$home/.built"
}

start() {
  rm -rf "$dir/home" && { cp -al "$home" "$dir/home" 2>/dev/null || cp -a "$home" "$dir/home"; }
  rm -rf "$dir/home/data" && mkdir -p "$dir/home/data/import" "$dir/home/data/tmp"
  cp "$realm" "$dir/home/data/import/weir-realm.json"
  export JAVA_OPTS_APPEND="-XX:TieredStopAtLevel=1" JAVA_OPTS_KC_HEAP="-Xms64m -Xmx${KEYCLOAK_HEAP:-384m}"
  export KC_BOOTSTRAP_ADMIN_USERNAME=admin KC_BOOTSTRAP_ADMIN_PASSWORD=admin
  spawn "$dir/home/bin/kc.sh" start --optimized --import-realm --cache=local --http-enabled=true --hostname-strict=false --http-host=127.0.0.1 --http-port="$port"
  await 240 web "http://127.0.0.1:$port/realms/weir/.well-known/openid-configuration"
  say "OIDC_ISSUER=http://127.0.0.1:$port/realms/weir"
}

main "$@"
