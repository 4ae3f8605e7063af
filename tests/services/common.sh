# What the scripts of services share, to be sourced: where things are kept, how a server is started, awaited and stopped.
# The script of a server defines install and start, and ends with: main "$@"
set -euo pipefail
cache=${WEIR_SERVICES_CACHE:-$HOME/.cache/weir-services}
self=${0##*/}
dir= port=

die() { echo "$self: $*" >&2; exit 1; }
# A process is named by its number and its birth, so that a later one with the same number is never taken for it.
birth() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '{ print $20 }'; }
# Its files and ports are free when its last thread has ended, of which the first to end may be that with the number of the process.
runs() { { sed 's/.*) //' "/proc/$1/task/"*/stat 2>/dev/null || true; } | awk '$1 != "Z" && $1 != "X" { found = 1 } END { exit !found }'; }
alive() { local p b; [ -s "$dir/pid" ] && read -r p b <"$dir/pid" && [ -n "$b" ] && [ "$(birth "$p")" = "$b" ] && runs "$p"; }
spawn() { setsid "$@" >>"$dir/log" 2>&1 </dev/null & echo "$! $(birth $!)" >"$dir/pid"; }
await() { # SECONDS CHECK...
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    alive || { tail -n 20 "$dir/log" >&2; die "ended while starting"; }
    [ $SECONDS -lt $end ] || { tail -n 20 "$dir/log" >&2; stop; die "not ready in time"; }
    sleep 0.1
  done
}
stop() {
  local p b i
  if alive; then
    read -r p b <"$dir/pid"
    kill -s "${quit:-TERM}" "$p" || true
    # On a busy machine it takes its time; killed, it would lose what it has not written.
    for i in {1..600}; do alive || break; sleep 0.1; done
    if alive; then
      kill -9 -- "-$p" || true   # the group that setsid gave it
      for i in {1..600}; do alive || break; sleep 0.1; done
    fi
  fi
  rm -f "$dir/pid"
}
tcp() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
web() { curl -sf -m 5 -o /dev/null "$1"; }
say() { echo "$1" | tee -a "$dir/env"; }
# Run one install step at a time, whoever asks.
once() { mkdir -p "$cache"; (flock 9; "$@" 9>&-) 9>"$cache/$self.lock"; }
# venv NAME PACKAGE...: a Python environment in the cache.
venv() {
  local at=$cache/$1; shift
  [ "$(cat "$at/.has" 2>/dev/null)" = "$*" ] && return
  python3 -m venv "$at" && "$at/bin/pip" -q --disable-pip-version-check install "$@" && echo "$*" >"$at/.has"
}

# An authority for this run (ca.pem) and a certificate of it for loopback (server.pem, server.key).
certificates() {
  [ -e "$dir/ca.pem" ] && return
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=weir-test-authority -keyout "$dir/ca.key" -out "$dir/ca.pem"
  openssl req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout "$dir/server.key" -out "$dir/server.csr"
  openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial -days 30 \
    -extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost") -out "$dir/server.pem"
  openssl req -newkey rsa:2048 -nodes -subj /CN=bearer -keyout "$dir/client.key" -out "$dir/client.csr"
  openssl x509 -req -in "$dir/client.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial -days 30 \
    -extfile <(echo extendedKeyUsage=clientAuth) -out "$dir/client.pem"
}

# The commands of every script of a server.
main() {
  case ${1-} in
    install) once install ;;
    start)
      [ $# -eq 3 ] || die "start DIR PORT"
      mkdir -p "$2"; dir=$(cd "$2" && pwd) port=$3
      ! alive || die "already running in $dir"
      once install
      rm -f "$dir/env"
      start ;;
    stop) [ $# -eq 2 ] || die "stop DIR"; dir=$2; stop; ! declare -F stopped >/dev/null || stopped ;;
    status) [ $# -eq 2 ] || die "status DIR"; dir=$2; alive ;;
    *) die "install | start DIR PORT | stop DIR | status DIR" ;;
  esac
}
