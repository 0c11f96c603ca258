#!/bin/sh
# install_packages.sh [NAME|LIST.txt]...: installs the missing Debian packages of packages.txt, of these
# names and of these lists in this folder, and prints their names first. Ends within milliseconds when
# none is missing.
set -eu

wanted=""
for argument in packages.txt "$@"; do
  case $argument in
    *.txt) wanted="$wanted $(grep -v '^#' "$(dirname "$0")/$argument")" ;;
    *) wanted="$wanted $argument" ;;
  esac
done

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v apt-get >/dev/null; then
  echo "This is not Debian or Ubuntu: install the equivalents of these packages by hand, if missing:"
  echo "$wanted" | tr '\n' ' '
  echo
  exit 0
fi

missing=""
for package in $wanted; do
  is_installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
  as_root="sudo"
  if ! command -v sudo >/dev/null; then
    echo "Missing Debian packages, and no sudo to install them. As root, run:" >&2
    echo "  apt-get install -y$missing" >&2
    exit 1
  fi
fi

echo "Installing Debian packages:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get"
# Container images omit documentation, but python3-doc is needed for its text.
documentation="Dpkg::Options::=--path-include=/usr/share/doc/python3*"
# shellcheck disable=SC2086  # word splitting is intended
if ! { $apt update -qq &&
  $apt install -y --no-install-recommends -o "$documentation" $missing; } </dev/null >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
