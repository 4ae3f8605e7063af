#!/usr/bin/env bash
# PostgreSQL with logical replication, and TLS for those who want it (ca.pem in DIR). The superuser postgres needs no password. The users weir (SCRAM), old (MD5)
# and clear (as it is) have the password geheim; tls has it, too, and is let in with TLS alone; bearer is let in with a
# certificate (client.pem and client.key in DIR). Run as root, the server is the user postgres.
# postgres.sh install | start DIR PORT | stop DIR | status DIR | ask DIR SQL
. "$(dirname "$0")/common.sh"
bin=/usr/lib/postgresql/15/bin
# Fast: connections are ended, and the data are left in order.
quit=INT

install() {
  [ -x "$bin/postgres" ] && command -v psql >/dev/null && return
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-15 openssl >/dev/null
}

as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --init-groups "$@"; else "$@"; fi; }

# One that was killed leaves processes that end by themselves, and until then nobody may start on its data.
unused() { for at in /proc/[0-9]*/cwd; do [ "$(readlink "$at")" != "$dir/data" ] || return 1; done; }

ask() { psql -XAtq -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$(sed -n 's/^POSTGRES_AT=.*://p' "$dir/env")" -U postgres -d postgres -c "$1" 2>&1; }

start() {
  certificates >>"$dir/log" 2>&1
  local data=$dir/data run=() new=
  if [ "$(id -u)" = 0 ]; then
    run=(setpriv --reuid postgres --regid postgres --init-groups)
    chmod 711 "$dir"
    mkdir -p "$data" && chown postgres "$data"
  fi
  cd /
  if [ ! -s "$data/PG_VERSION" ]; then
    new=yes
    as "$bin/initdb" -D "$data" -A trust -U postgres -E UTF8 --locale=C.UTF-8 --no-sync >>"$dir/log" 2>&1 || { tail "$dir/log" >&2; die "initdb failed"; }
    as tee "$data/server.pem" <"$dir/server.pem" >/dev/null
    as tee "$data/ca.pem" <"$dir/ca.pem" >/dev/null
    as sh -c 'umask 077; cat >"$1"' - "$data/server.key" <"$dir/server.key"
    as tee "$data/pg_hba.conf" >/dev/null <<END
host all postgres 127.0.0.1/32 trust
hostssl all tls 127.0.0.1/32 scram-sha-256
hostssl all bearer 127.0.0.1/32 cert
hostnossl all tls 127.0.0.1/32 reject
host all old 127.0.0.1/32 md5
host all clear 127.0.0.1/32 password
host all all 127.0.0.1/32 scram-sha-256
END
  fi
  for _ in {1..600}; do ! unused || break; sleep 0.1; done
  ! unused || as rm -f "$data/postmaster.pid"
  spawn "${run[@]}" "$bin/postgres" -D "$data" -c listen_addresses=127.0.0.1 -c port="$port" -c unix_socket_directories= -c wal_level=logical \
    -c fsync=off -c ssl=on -c ssl_cert_file=server.pem -c ssl_key_file=server.key -c ssl_ca_file=ca.pem -c max_replication_slots=20 -c max_wal_senders=20
  await 180 psql -XAtq -h 127.0.0.1 -p "$port" -U postgres -d postgres -c 'SELECT 1'
  say "POSTGRES_AT=127.0.0.1:$port"
  [ -z "$new" ] || ask "CREATE ROLE weir LOGIN REPLICATION PASSWORD 'geheim'; CREATE ROLE tls LOGIN PASSWORD 'geheim'; CREATE ROLE bearer LOGIN REPLICATION; CREATE ROLE clear LOGIN PASSWORD 'geheim';
    SET password_encryption TO md5; CREATE ROLE old LOGIN PASSWORD 'geheim'; GRANT ALL ON SCHEMA public TO weir, tls, bearer, clear, old;
    GRANT pg_read_all_data TO weir"
}

if [ "${1-}" = ask ]; then dir=$2; ask "$3"; else main "$@"; fi
