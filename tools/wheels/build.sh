#!/bin/sh
# build.sh BIN DIR: builds the wheel that serves each PyTorch of requirements/served.txt, for the Python
# in BIN, and the source distribution, and leaves them in dist/. DIR keeps the objects and the headers
# for the next time.
set -eu
cd "$(dirname "$0")/../.."

bin=$1
directory=$2
mkdir -p "$directory"

# Only the headers of each PyTorch are needed, and the libraries that the extension links.
folders=""
for requirement in $(grep '^torch==' requirements/served.txt); do
  folder=$directory/torch/${requirement#torch==}
  if [ ! -e "$folder/.ready" ]; then
    echo "Unpacking $requirement into $folder (about 600 MB)"
    rm -rf "$folder"
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
      --target "$folder" "$requirement"
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

echo "Compiling an extension for each PyTorch"
rm -rf "$directory/unrepaired" dist/teraio-*
"$bin/python" -c "from scikit_build_core import build; build.build_sdist('dist')" >/dev/null
PATH=$bin:$PATH "$bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$directory/unrepaired" \
  --config-settings=build-dir="$directory/cmake" \
  --config-settings=cmake.define.TERAIO_TORCH_FOLDERS="${folders#;}" \
  --config-settings=cmake.define.TERAIO_BASELINE="$directory/baseline" .

# Adds the libraries that PyTorch's environment lacks, and names the oldest C library that it runs on.
PATH=$bin:$PATH "$bin/auditwheel" repair --wheel-dir dist \
  --exclude 'libtorch*.so' --exclude 'libc10*.so' "$directory"/unrepaired/teraio-*.whl
