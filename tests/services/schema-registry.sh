#!/usr/bin/env bash
# Apicurio Registry: schemas of Avro and Protobuf, behind an interface as Confluent's. It keeps them in memory.
# 2.6 is the last line that runs on Java 17.
# schema-registry.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

version=2.6.13.Final
home=$cache/apicurio-$version

install() {
  [ -e "$home/.done" ] && return
  local artifact=io.apicurio:apicurio-registry-app:$version:tar.gz:all
  local tar=$cache/m2/io/apicurio/apicurio-registry-app/$version/apicurio-registry-app-$version-all.tar.gz
  [ -s "$tar" ] || mvn -q -B -Dmaven.repo.local="$cache/m2" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get -Dtransitive=false -Dartifact="$artifact" >&2
  [ -s "$tar" ] || return
  mkdir -p "$home" && tar xzf "$tar" -C "$home" && touch "$home/.done"
}

start() {
  local jar=$home/quarkus-run.jar
  [ -e "$jar" ] || jar=$(echo "$home"/*-runner.jar)
  spawn java "-Xmx${REGISTRY_HEAP:-256m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$port" -jar "$jar"
  await 300 web "http://127.0.0.1:$port/apis/ccompat/v7/subjects"
  say "SCHEMA_REGISTRY_URL=http://127.0.0.1:$port/apis/ccompat/v7"
}

main "$@"
