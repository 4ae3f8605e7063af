#!/usr/bin/env bash
# Chromium without a window, for tests of pages. It is told what to do by the protocol of its developer tools, at PORT.
# browser.sh install | start DIR PORT | stop DIR | status DIR
. "$(dirname "$0")/common.sh"

binary() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

install() {
  binary >/dev/null && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
}

start() {
  # Root, which containers run as, gets no sandbox; what is opened is weir's own. Shared memory is small in containers.
  spawn "$(binary)" --headless=new --no-sandbox --disable-dev-shm-usage --disable-gpu --no-first-run --disable-background-networking \
    --disable-component-update --user-data-dir="$dir/profile" --window-size=1280,900 --remote-debugging-port="$port" about:blank
  await 180 web "http://127.0.0.1:$port/json/version"
}

main "$@"
