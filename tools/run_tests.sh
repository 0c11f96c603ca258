#!/bin/sh
# run_tests.sh [--minutes N] PART...: runs `make PART` for each part, even after a failure, and prints
# a summary: the result and time of each part, the last fault that it alone has found, and the last
# lines of CTest, pytest and of what runs by seed. The exit status is 1 when a part failed. The output
# is in build/logs.
#
# With --minutes, a part that would end more than N minutes after the start is left out, and the
# summary says so; parts before the first that has an expected time always run. How long a part
# takes here is told from the C++ tests. Whatever happens, all ends within 1.8 * N minutes: a part
# that still runs is ended, and counts as failed.
set -eu

minutes=""
if [ "${1:-}" = --minutes ]; then
  minutes=$2
  shift 2
fi
cd "$(dirname "$0")/.."
logs=build/logs
mkdir -p "$logs"

# Seconds on two quiet cores, with what must be built before and some of it in the compiler cache.
# Those of test-full, test-newest and test-yard are estimates from the times of their tests.
expected_seconds() {
  case $1 in
    test-full-*) echo 400 ;;
    test-newest) if [ -e .venv-newest/.ready ]; then echo 230; else echo 470; fi ;;
    test-yard) echo 120 ;;
    sanitize-address) echo 225 ;;
    sanitize-thread) echo 175 ;;
    sanitize-extension-address) echo 170 ;;
    sanitize-extension-thread) echo 205 ;;
    *) echo 0 ;;
  esac
}
test_cpp_seconds=70

# The last fault that no other part found, as far as commits tell.
last_fault() {
  case $1 in
    test-cpp) echo "2026-11-27: bytes that are pinned during their write were missing in a counter" ;;
    test-python-full | test-full-*) echo "2026-11-29: Ctrl-C was lost while another thread waited for a drive" ;;
    test-newest) echo "2026-11-26: a dry run of trunc_normal_ never ended with PyTorch 2.15" ;;
    sanitize-extension-thread) echo "2026-11-25: two threads raced for the first use of a storage" ;;
    faulty-drives) echo "2026-11-26: a session did not end when a discarded tensor could not be made again" ;;
    build) ;;
    *) echo "none on record" ;;
  esac
}

now() { date +%s; }
start=$(now)
elapsed() { echo $(($(now) - start)); }

# How much slower than quiet this machine is, in percent; at least a half, as other work comes and goes.
slowness=150
note_slowness() {
  [ "$1" = test-cpp ] || return 0
  slowness=$(($2 * 100 / test_cpp_seconds))
  [ "$slowness" -ge 150 ] || slowness=150
}

would_take() { echo $(($(expected_seconds "$1") * slowness / 100)); }

fits() {
  [ -z "$minutes" ] || [ "$(expected_seconds "$1")" = 0 ] ||
    [ $(($(elapsed) + $(would_take "$1"))) -le $((minutes * 60)) ]
}

# Runs a command; with --minutes, only while there is time. All processes that it leaves are ended:
# they have its variable in their environment.
within_time() {
  if [ -z "$minutes" ]; then
    "$@"
    return
  fi
  left=$((minutes * 108 - $(elapsed)))
  [ "$left" -gt 0 ] || { echo "No time is left." && return 1; }
  code=0
  env TERAIO_TEST_RUN=$$ timeout --signal=INT --kill-after=20 "$left" "$@" || code=$?
  for environment in $(grep -lsz "^TERAIO_TEST_RUN=$$\$" /proc/[0-9]*/environ); do
    process=${environment#/proc/}
    kill -KILL "${process%/environ}" 2>/dev/null || true
  done
  return "$code"
}

run() {
  rm -f "$logs/$1.failed"
  { within_time "${MAKE:-make}" --no-print-directory "$1" 2>&1 || touch "$logs/$1.failed"; } | tee "$logs/$1.log"
}

# Which tests failed, as CTest and pytest name them, and pytest's lines of why.
failures() {
  grep -hE '^(FAILED|ERROR) |^E  |^\s+[0-9]+ - .*\((Failed|Timeout|SEGFAULT|Subprocess)|\*\*\*(Failed|Timeout|Exception)' \
    "$logs/$1.log" | awk '!seen[$0]++' | cut -c1-240 | tail -40 || true
}

closing_lines() {
  fault=$(last_fault "$1")
  [ -z "$fault" ] || echo "  last fault found by it alone: $fault"
  [ ! -e "$logs/$1.failed" ] || failures "$1" | sed 's/^/  /'
  grep -hE '^[0-9]+% tests passed|^Total Test time|[0-9]+ (passed|failed|error|deselected).* in [0-9]|^[0-9]+ trainings: |^seeds [0-9]|^Done [0-9]|^drawn for ' \
    "$logs/$1.log" | awk '!seen[$0]++' | sed 's/^/  /' || true
}

status=0
summary=""
for part in "$@"; do
  if ! fits "$part"; then
    summary="$summary$part: left out, would take $(would_take "$part") s of the $((minutes * 60 - $(elapsed))) s that are left
"
    continue
  fi
  part_start=$(now)
  run "$part"
  seconds=$(($(now) - part_start))
  note_slowness "$part" "$seconds"
  result=passed
  if [ -e "$logs/$part.failed" ]; then
    result=FAILED
    status=1
  fi
  summary="$summary$part: $result in $seconds s
$(closing_lines "$part")
"
done
printf '\nTests, in %s s (output: %s):\n%s' "$(elapsed)" "$logs" "$summary" | grep -v '^$'
exit $status
