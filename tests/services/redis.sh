#!/usr/bin/env bash
# Redis, with what it is told written to disk. PORT plain, PORT+1 TLS with an authority of its own (ca.pem in DIR) for clients that
# have a certificate of that authority (client.pem and client.key in DIR).
# redis.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

install() {
  PATH=$PATH:/usr/sbin command -v redis-server >/dev/null && return
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server openssl >/dev/null
}

answers() { [ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ]; }

start() {
  certificates >>"$dir/log" 2>&1
  PATH=$PATH:/usr/sbin spawn redis-server --bind 127.0.0.1 --port "$port" --dir "$dir" --appendonly yes --appendfsync always --save '' \
    --tls-port $((port + 1)) --tls-cert-file "$dir/server.pem" --tls-key-file "$dir/server.key" --tls-ca-cert-file "$dir/ca.pem" --tls-auth-clients yes
  await 120 answers
  say "REDIS_URL=redis://127.0.0.1:$port"
  say "REDIS_TLS_URL=rediss://127.0.0.1:$((port + 1))"
}

main "$@"
