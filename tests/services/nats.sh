#!/usr/bin/env bash
# NATS with JetStream, and TLS for those who want it (ca.pem in DIR). PORT clients, PORT+1 monitoring. Whoever gives no name may do everything; who
# gives one has to be `weir` with the password `geheim`, or have the seed of NATS_SEED. With CLIENT_CERTIFICATES=1 TLS is for clients that have a certificate
# of the authority (client.pem and client.key in DIR).
# nats.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"
version=v2.15.2

install() { [ -x "$cache/go/bin/nats-server" ] || GOBIN=$cache/go/bin go install "github.com/nats-io/nats-server/v2@$version"; }

start() {
  certificates >>"$dir/log" 2>&1
  local verify=; [ "${CLIENT_CERTIFICATES:-0}" = 0 ] || verify=", ca_file: \"$dir/ca.pem\", verify: true"
  cat >"$dir/nats.conf" <<END
listen: "127.0.0.1:$port"
http: "127.0.0.1:$((port + 1))"
jetstream { store_dir: "$dir/store" }
tls { cert_file: "$dir/server.pem", key_file: "$dir/server.key"$verify }
allow_non_tls: true
no_auth_user: anybody
authorization { users: [
  { user: anybody, password: anything }
  { user: weir, password: geheim }
  { nkey: UB43KVROR7TFJ6KAPCYRF2FJROTZAH4FHLTJLPWX4DRZCC5NASLGJBFE }
] }
END
  spawn "$cache/go/bin/nats-server" -c "$dir/nats.conf"
  await 120 web "http://127.0.0.1:$((port + 1))/healthz"
  say "NATS_URL=nats://127.0.0.1:$port"
  say "NATS_SEED=SUAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB6IC5CQ"
}

main "$@"
