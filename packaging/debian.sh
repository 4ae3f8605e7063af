#!/usr/bin/env bash
# Makes a Debian package out of a binary that was built, in the directory it is called in.
# packaging/debian.sh PATH/TO/weir
set -euo pipefail
umask 022
[ $# -eq 1 ] && [ -x "$1" ] || { echo "usage: packaging/debian.sh PATH/TO/weir" >&2; exit 2; }
command -v objdump >/dev/null || { echo "packaging/debian.sh: no objdump (package binutils), which tells what C library the binary needs" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
version=$("$1" --version | awk '{ print $2; exit }')
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

install -Dm 755 "$1" "$tree/usr/bin/weir"
strip "$tree/usr/bin/weir" 2>/dev/null || true
# Passwords may come to stand in it: the group is made weir where it is installed.
install -Dm 640 "$here/weir.conf" "$tree/etc/weir/weir.conf"
install -d "$tree/lib/systemd/system" "$tree/usr/share/man/man1" "$tree/usr/share/bash-completion/completions" \
  "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/doc/weir" "$tree/DEBIAN"
sed 's|/usr/local/bin/weir|/usr/bin/weir|' "$here/weir.service" >"$tree/lib/systemd/system/weir.service"
"$1" manual | gzip -9n >"$tree/usr/share/man/man1/weir.1.gz"
"$1" completions bash >"$tree/usr/share/bash-completion/completions/weir"
"$1" completions zsh >"$tree/usr/share/zsh/vendor-completions/_weir"
install -m 644 "$here/../LICENSE" "$tree/usr/share/doc/weir/copyright"

# What the binary is linked with says from which release of the C library on it runs, and of that of C++, whose symbols have
# numbers of their own: https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html
newest() { objdump -T "$1" 2>/dev/null | grep -o "$2_[0-9.]*" | sort -Vu | tail -n 1 | cut -d_ -f2 || true; }
libc=$(newest "$1" GLIBC)
symbols=$(newest "$1" GLIBCXX)
case $symbols in
  "") cpp= ;;
  3.4 | 3.4.? | 3.4.1? | 3.4.2[0-5]) cpp=8 ;;
  3.4.2[678]) cpp=10 ;;
  3.4.29) cpp=11 ;;
  3.4.30) cpp=12 ;;
  3.4.31) cpp=13 ;;
  3.4.32) cpp=13.2 ;;
  3.4.33) cpp=14 ;;
  3.4.34) cpp=15 ;;
  *) echo "packaging/debian.sh: the binary needs GLIBCXX_$symbols; say here which libstdc++6 has it" >&2; exit 1 ;;
esac
cat >"$tree/DEBIAN/control" <<CONTROL
Package: weir
Version: $version
Architecture: $architecture
Maintainer: The weir project <weir@localhost>
Depends: libc6 (>= ${libc:-2.31}), libstdc++6${cpp:+ (>= $cpp)}, adduser
Recommends: ca-certificates
Section: database
Priority: optional
Description: streaming property graph
 Records come in, a Cypher query runs on each and changes the graph, and
 standing queries report every match that a change completes or breaks.
CONTROL
echo /etc/weir/weir.conf >"$tree/DEBIAN/conffiles"
cat >"$tree/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  adduser --system --group --home /var/lib/weir --quiet weir
  if [ -z "$2" ] && [ -d /var/lib/weir ]; then chmod 750 /var/lib/weir; fi
  # Whoever has given it another group meant that.
  if [ "$(stat -c %G /etc/weir/weir.conf 2>/dev/null)" = root ]; then chgrp weir /etc/weir/weir.conf && chmod 640 /etc/weir/weir.conf; fi
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    # After an upgrade, what ran goes on as the new one.
    if [ -n "$2" ]; then systemctl try-restart weir.service || true; fi
  fi
fi
POSTINST
cat >"$tree/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
# In order, which takes as long as the unit gives it. What is in /var/lib/weir stays, also when the package goes for good.
case "$1" in
  remove | deconfigure) if [ -d /run/systemd/system ]; then systemctl stop weir.service || true; fi ;;
esac
if [ "$1" = remove ] && command -v systemctl >/dev/null; then systemctl --quiet disable weir.service || true; fi
PRERM
cat >"$tree/DEBIAN/postrm" <<'POSTRM'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
POSTRM
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm" "$tree/DEBIAN/postrm"
package=weir_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" "$package" >&2
echo "$package"
