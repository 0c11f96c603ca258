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

# Prints the lines of a file of requirements and of the files that it includes: "-r runtime.txt".
lines_of() {
  grep -v '^-r ' "$1"
  for included in $(sed -n 's/^-r //p' "$1"); do
    lines_of "$(dirname "$1")/$included"
  done
}

size=""
[ -d "$(echo "$directory"/lib/python3*/site-packages/torch)" ] || ! lines_of "$requirements" | grep -q '^torch==' ||
  size=" (about 5 GB with the libraries of PyTorch)"
echo "Installing into $directory$size what is missing of:"
lines_of "$requirements" | grep '==' | sed 's/^/  /'
quiet=""
[ -t 1 ] || quiet="--quiet"
# Python compiles a module when it is imported first; most never are.
"$directory/bin/python" -m pip install $quiet --disable-pip-version-check --no-compile -r "$requirements" </dev/null

if [ -n "$packages" ]; then
  site=$("$directory/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  echo "$packages" >"$site/teraio-build.pth"
fi
