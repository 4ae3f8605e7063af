#!/usr/bin/env bash
# Builds the weir that is handed out: the same commit gives the same bytes, whatever directory and day it is built in.
#
#   packaging/release.sh [INTO]      builds what is committed and prints the file with its SHA-256; INTO is a directory, `.` by default
#   packaging/release.sh check       does so twice, from clones in two directories, and compares
#   packaging/release.sh check FILE  does so once, and compares with a weir that was handed out (check out the commit it names first)
#
# RELEASE_TARGET=DIRECTORY keeps the build output there, and takes what others are built from out of it. Without it all is built anew.
#
# Paths get into a binary by many ways: messages of panics, OpenSSL's directories and its list of compiler options, debug information.
# Options that rename them get into it, too. So it is built in a place of the same name everywhere, in a mount namespace of its own.
# What must be the same besides: the Rust toolchain (rust-toolchain of whoever builds), the C compiler and the C library; and that there are
# pkg-config and Python, which librdkafka looks for.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
die() { echo "release: $*" >&2; exit 1; }

build() {
  local from=$1 into=$2 work target commit
  command -v unshare >/dev/null || die "no unshare (package util-linux)"
  unshare --map-root-user --mount true 2>/dev/null || die "no mount namespaces for this user here; packaging/Containerfile builds in a place of one name, too"
  for tool in pkg-config python3; do
    [ -x "/usr/bin/$tool" ] || [ -x "/usr/local/bin/$tool" ] || die "no $tool: librdkafka would be built otherwise than where it is"
  done
  [ -z "$(git -C "$from" status --porcelain --untracked-files=no)" ] || die "there are changes that are not committed"
  commit=$(git -C "$from" rev-parse HEAD)
  work=$(mktemp -d)
  target=${RELEASE_TARGET:-$work/target}
  # What is read-only in a registry's cache can be removed by its owner alone.
  trap 'rm -rf "$work"' RETURN
  mkdir -p "$work/source" "$target" "$into"
  # Fresh times of change: cargo compiles again what is newer than its output, and a commit may be old.
  git -C "$from" archive "$commit" | tar -x -m -C "$work/source"
  (cd "$work/source" && cargo fetch --quiet --locked)
  local cargo_home=${CARGO_HOME:-$HOME/.cargo} epoch
  epoch=$(git -C "$from" log -1 --format=%ct "$commit")
  env -i HOME="$HOME" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" PATH="$cargo_home/bin:/usr/local/bin:/usr/bin:/bin" LC_ALL=C TZ=UTC \
    SOURCE_DATE_EPOCH="$epoch" WEIR_COMMIT="$commit" CARGO_INCREMENTAL=0 CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-$(nproc)}" \
    unshare --map-root-user --mount bash -eu -c '
      umask 022
      mount -t tmpfs none /mnt
      mkdir /mnt/source /mnt/target /mnt/cargo
      mount --bind "$1" /mnt/source
      mount --bind "$2" /mnt/target
      mount --bind "$3" /mnt/cargo
      export CARGO_HOME=/mnt/cargo CARGO_TARGET_DIR=/mnt/target
      cd /mnt/source
      cargo build --release --frozen --workspace --bin weir >&2
    ' bash "$work/source" "$target" "$cargo_home"
  install -m 755 "$target/release/weir" "$into/weir"
  strip "$into/weir"
  (cd "$into" && sha256sum weir | sed "s|  weir|  $into/weir|")
}

# Says what differs; the sizes and commits tell most mistakes apart.
same() {
  cmp "$1" "$2" && return
  for file in "$1" "$2"; do echo "release: $file: $(stat -c %s "$file") bytes, $("$file" --version | head -1)" >&2; done
  die "they differ"
}

if [ "${1:-}" = check ] && [ -n "${2:-}" ]; then
  [ -f "$2" ] || die "there is no file $2"
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' EXIT
  build "$here" "$fresh/out"
  same "$2" "$fresh/out/weir"
  echo "the same bytes as $2"
elif [ "${1:-}" = check ]; then
  both=$(mktemp -d)
  trap 'rm -rf "$both"' EXIT
  # Both at once: who commits while the first is built must not be told that builds differ.
  for name in one a/quite/different/one; do
    mkdir -p "$both/$name"
    git clone --quiet "$here" "$both/$name/clone"
  done
  for name in one a/quite/different/one; do build "$both/$name/clone" "$both/$name/out"; done
  same "$both/one/out/weir" "$both/a/quite/different/one/out/weir"
  echo "the same bytes, both times"
else
  build "$here" "$(mkdir -p "${1:-.}" && cd "${1:-.}" && pwd)"
fi
