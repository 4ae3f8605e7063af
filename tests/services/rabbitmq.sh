#!/usr/bin/env bash
# RabbitMQ. PORT AMQP, PORT+1 Erlang distribution, PORT+2 its port mapper, PORT+3 AMQP over TLS with an authority of its own (ca.pem in DIR). User and
# password guest. With CLIENT_CERTIFICATES=1 TLS is for clients that have a certificate of the authority (client.pem and client.key in DIR).
# rabbitmq.sh install | start DIR PORT | stop DIR | status DIR | messages DIR QUEUE
. "$(dirname "$0")/common.sh"

install() {
  [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] && command -v amqp-publish >/dev/null && return
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rabbitmq-server amqp-tools openssl >/dev/null
}

start() {
  certificates >>"$dir/log" 2>&1
  local verify=verify_none; [ "${CLIENT_CERTIFICATES:-0}" = 0 ] || verify=$'verify_peer\nssl_options.fail_if_no_peer_cert = true'
  cat >"$dir/rabbitmq.conf" <<END
listeners.tcp.1 = 127.0.0.1:$port
listeners.ssl.1 = 127.0.0.1:$((port + 3))
ssl_options.cacertfile = $dir/ca.pem
ssl_options.certfile = $dir/server.pem
ssl_options.keyfile = $dir/server.key
ssl_options.verify = $verify
END
  # In its own directory: Mnesia leaves a core where it is when it is killed.
  spawn env -C "$dir" HOME="$dir" ERL_CRASH_DUMP="$dir/erl_crash.dump" RABBITMQ_NODENAME="weir$port@localhost" RABBITMQ_DIST_PORT=$((port + 1)) ERL_EPMD_ADDRESS=127.0.0.1 \
    ERL_EPMD_PORT=$((port + 2)) RABBITMQ_MNESIA_BASE="$dir/mnesia" RABBITMQ_LOG_BASE="$dir/logs" RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" \
    RABBITMQ_PID_FILE="$dir/node.pid" RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
    RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" /usr/lib/rabbitmq/bin/rabbitmq-server
  await 300 tcp $((port + 3))
  await 120 tcp "$port"
  say "AMQP_URL=amqp://127.0.0.1:$port"
  say "AMQP_TLS_URL=amqps://127.0.0.1:$((port + 3))"
}

# The port mapper detaches itself; it ends when asked, once no node is registered with it.
stopped() {
  local at; at=$(sed -n 's/^AMQP_URL=.*:\([0-9]*\)$/\1/p' "$dir/env")
  for _ in {1..200}; do ERL_EPMD_PORT=$((at + 2)) epmd -kill 2>/dev/null | grep -q Killed && break; sleep 0.1; done
}

# How many messages a queue has: what was handed to it before the question counts.
messages() {
  local at; at=$(sed -n 's/^AMQP_URL=.*:\([0-9]*\)$/\1/p' "$dir/env")
  HOME="$dir" RABBITMQ_NODENAME="weir$at@localhost" ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((at + 2)) \
    /usr/lib/rabbitmq/bin/rabbitmqctl -q --no-table-headers --erlang-cookie "$(cat "$dir/.erlang.cookie")" list_queues name messages |
    awk -v queue="$1" '$1 == queue { print $2 }'
}

if [ "${1-}" = messages ]; then dir=$2; messages "$3"; else main "$@"; fi
