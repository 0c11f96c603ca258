#!/bin/sh
# run_tests.sh [--minutes N] PART...: runs `make PART` for each part, even after a failure, and prints
# a summary: the result and time of each part, and the last lines of CTest, pytest and of what runs by
# seed. The exit status is 1 when a part failed.
#
# With --minutes, a part that is expected to end more than N minutes after the start is left out, and
# the summary says so. Parts without an expected time always run. The output is in build/logs.
set -eu

minutes=""
if [ "${1:-}" = --minutes ]; then
  minutes=$2
  shift 2
fi
cd "$(dirname "$0")/.."
logs=build/logs
mkdir -p "$logs"

# Minutes on two slow cores with an empty compiler cache.
expected_minutes() {
  case $1 in
    sanitize-address | sanitize-thread) echo 6 ;;
    sanitize-extension-*) echo 9 ;;
    test-python-full) echo 22 ;;
    test-newest) echo 14 ;;
    *) echo 0 ;;
  esac
}

now() { date +%s; }

fits() {
  [ -z "$minutes" ] || [ "$(expected_minutes "$1")" = 0 ] ||
    [ $(($(now) - start + $(expected_minutes "$1") * 60)) -le $((minutes * 60)) ]
}

run() {
  rm -f "$logs/$1.failed"
  { "${MAKE:-make}" --no-print-directory "$1" 2>&1 || touch "$logs/$1.failed"; } | tee "$logs/$1.log"
}

closing_lines() {
  grep -hE '^[0-9]+% tests passed|^Total Test time|[0-9]+ (passed|failed|error|deselected).* in [0-9]|^[0-9]+ trainings: |^seeds [0-9]|^Done [0-9]' \
    "$logs/$1.log" | sed 's/^/  /' || true
}

start=$(now)
status=0
summary=""
for part in "$@"; do
  if ! fits "$part"; then
    summary="$summary$part: left out, takes about $(expected_minutes "$part") minutes and \
$((minutes - ($(now) - start) / 60)) of $minutes are left
"
    continue
  fi
  part_start=$(now)
  run "$part"
  result=passed
  if [ -e "$logs/$part.failed" ]; then
    result=FAILED
    status=1
  fi
  summary="$summary$part: $result in $(($(now) - part_start)) s
$(closing_lines "$part")
"
done
printf '\nTests, in %s s (output: %s):\n%s' "$(($(now) - start))" "$logs" "$summary" | grep -v '^$'
exit $status
