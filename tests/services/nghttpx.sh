#!/usr/bin/env bash
# nghttpx, a proxy that speaks TLS, with an authority of its own (ca.pem in DIR), before a server of plain HTTP/1.1 at BACKEND=HOST:PORT. PROTOCOLS=h2 takes
# HTTP/2 alone; with CLIENT_CERTIFICATES=1 clients show a certificate of the authority (client.pem and client.key in DIR). What was asked, and in which
# protocol, is in DIR/asked.
# nghttpx.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

install() {
  command -v nghttpx >/dev/null && command -v openssl >/dev/null && return
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nghttp2-proxy openssl >/dev/null
}

start() {
  certificates >>"$dir/log" 2>&1
  local verify=(); [ "${CLIENT_CERTIFICATES:-0}" = 0 ] || verify=(--verify-client "--verify-client-cacert=$dir/ca.pem")
  spawn nghttpx --conf=/dev/null --workers=1 --frontend="127.0.0.1,$port" --backend="${BACKEND/:/,}" --npn-list="${PROTOCOLS:-h2,http/1.1}" \
    --backend-read-timeout=10m --frontend-http2-read-timeout=10m "${verify[@]}" \
    --accesslog-file="$dir/asked" --accesslog-format='$alpn $status $path $http_x_amz_target' "$dir/server.key" "$dir/server.pem"
  await 120 tcp "$port"
}

main "$@"
