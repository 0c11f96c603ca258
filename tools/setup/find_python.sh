#!/bin/sh
# Prints the path of a Python 3.10 to 3.13 that can make a virtual environment and has the headers to
# build an extension. Installs the one of Debian when there is none. $PYTHON, when set, is the only candidate.
set -eu

usable='
import ensurepip, os, sys, sysconfig, venv
headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
if not ((3, 10) <= sys.version_info[:2] <= (3, 13) and os.path.exists(headers)):
    sys.exit(1)
print(os.path.realpath(sys.executable))
'

find_usable() {
  for candidate in "$@"; do
    "$candidate" -c "$usable" 2>/dev/null && return 0
  done
  return 1
}

if [ -n "${PYTHON:-}" ]; then
  find_usable "$PYTHON" && exit 0
  echo "PYTHON=$PYTHON cannot be used: it must be Python 3.10 to 3.13 with venv and the C headers" >&2
  exit 1
fi
candidates="python3 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3"
# shellcheck disable=SC2086
find_usable $candidates && exit 0
"$(dirname "$0")/install_packages.sh" python3 python3-venv python3-dev >&2
find_usable /usr/bin/python3 && exit 0
echo "No usable Python: install 3.10 to 3.13 with venv and the C headers, or set PYTHON" >&2
exit 1
