#!/bin/sh
# build.sh DIR [PYTHON...]: builds the source distribution, and for each Python (default: all that are
# found) the wheel that serves each PyTorch of requirements/served.txt, and leaves them in dist/.
# VERSIONS="2.15.0" serves some only. DIR keeps the environments, the headers and the objects for the next time.
set -eu
cd "$(dirname "$0")/../.."

directory=$1
shift
mkdir -p "$directory"
if [ $# = 0 ]; then
  for minor in 10 11 12 13; do
    for candidate in "python3.$minor" "$HOME"/.pyenv/versions/3."$minor".*/bin/python3; do
      path=$(PYTHON=$candidate tools/setup/find_python.sh 2>/dev/null) && set -- "$@" "$path" && break
    done
  done
fi

# Only the headers of each PyTorch are needed, and the libraries that the extension links. These are
# the same for every Python.
folders=""
for version in ${VERSIONS:-$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' requirements/served.txt)}; do
  folder=$directory/torch/$version
  if [ ! -e "$folder/.ready" ]; then
    echo "Unpacking PyTorch $version into $folder (about 600 MB)"
    rm -rf "$folder"
    "$1" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary :all: \
      --python-version 3.12 --target "$folder" "torch==$version"
    rm -f "$folder"/torch/lib/libtorch_cuda*.so
    touch "$folder/.ready"
  fi
  folders="$folders;$folder"
done

if [ ! -e "$directory/baseline/.ready" ]; then
  echo "Unpacking the C library of Debian 11 into $directory/baseline"
  rm -rf "$directory/baseline"
  tools/wheels/baseline.sh "$directory/baseline"
  touch "$directory/baseline/.ready"
fi

rm -rf "$directory"/unrepaired "$directory"/python3.* dist/teraio-*
for python in "$@"; do
  name=$("$python" -c 'import sys; print(f"python3.{sys.version_info.minor}")')
  bin=$directory/$name/bin
  PYTHON=$python tools/setup/make_venv.sh "$directory/$name" requirements/wheels.txt
  echo "Compiling an extension for each PyTorch, for $name"
  [ -e dist/teraio-*.tar.gz ] ||
    "$bin/python" -c "from scikit_build_core import build; build.build_sdist('dist')" >/dev/null
  PATH=$bin:$PATH "$bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --wheel-dir "$directory/unrepaired/$name" \
    --config-settings=build-dir="$directory/cmake-$name" \
    --config-settings=cmake.define.TERAIO_TORCH_FOLDERS="${folders#;}" \
    --config-settings=cmake.define.TERAIO_BASELINE="$directory/baseline" .

  # Adds the libraries that PyTorch's environment lacks, and names the oldest C library that it runs on.
  PATH=$bin:$PATH "$bin/auditwheel" repair --wheel-dir dist \
    --exclude 'libtorch*.so' --exclude 'libc10*.so' "$directory/unrepaired/$name"/teraio-*.whl
done
