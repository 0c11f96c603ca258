#!/bin/sh
# make_venv.sh DIR REQUIREMENTS [PACKAGES]: makes or updates a virtual environment, and prints what it
# installs. With PACKAGES, the environment imports the Python packages in that folder in place.
set -eu

directory=$1
requirements=$2
packages=${3:-}
here=$(cd "$(dirname "$0")" && pwd)

if [ ! -x "$directory/bin/python" ]; then
  python=$("$here/find_python.sh")
  echo "Making $directory with $python"
  "$python" -m venv "$directory"
fi

# A file of requirements may include others: "-r common.txt".
included=$(sed -n "s|^-r |$(dirname "$requirements")/|p" "$requirements")
size=""
grep -q '^torch==' "$requirements" && size=" (about 5 GB with the libraries of PyTorch)"
echo "Installing into $directory$size:"
# shellcheck disable=SC2086  # $included is empty or several words
cat "$requirements" $included | grep '==' | sed 's/^/  /'
quiet=""
[ -t 1 ] || quiet="--quiet"
"$directory/bin/python" -m pip install $quiet --disable-pip-version-check -r "$requirements" </dev/null

if [ -n "$packages" ]; then
  site=$("$directory/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  echo "$packages" >"$site/teraio-build.pth"
fi
