#!/usr/bin/env bash
# Mosquitto, a broker of MQTT, that writes its sessions and messages to disk as they change. PORT plain, PORT+1 TLS with an authority of its own (ca.pem
# in DIR), with CLIENT_CERTIFICATES=1 for clients that have a certificate of it (client.pem and client.key in DIR). Whoever gives a name has to be `weir` with
# the password `geheim`.
# mqtt.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

install() {
  PATH=$PATH:/usr/sbin command -v mosquitto >/dev/null && command -v mosquitto_pub >/dev/null && return
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mosquitto mosquitto-clients openssl >/dev/null
}

start() {
  certificates >>"$dir/log" 2>&1
  mkdir -p "$dir/data"
  local verify=; [ "${CLIENT_CERTIFICATES:-0}" = 0 ] || verify=$'require_certificate true\ncafile '"$dir/ca.pem"
  mosquitto_passwd -b -c "$dir/passwords" weir geheim >>"$dir/log" 2>&1
  cat >"$dir/mosquitto.conf" <<END
listener $port 127.0.0.1
listener $((port + 1)) 127.0.0.1
certfile $dir/server.pem
keyfile $dir/server.key
$verify
allow_anonymous true
password_file $dir/passwords
user $(id -un)
persistence true
persistence_location $dir/data/
autosave_on_changes true
autosave_interval 1
max_queued_messages 0
log_dest stderr
END
  PATH=$PATH:/usr/sbin spawn mosquitto -c "$dir/mosquitto.conf"
  await 120 tcp "$port"
  await 120 tcp $((port + 1))
  say "MQTT_URL=mqtt://127.0.0.1:$port"
  say "MQTT_TLS_URL=mqtts://127.0.0.1:$((port + 1))"
}

main "$@"
