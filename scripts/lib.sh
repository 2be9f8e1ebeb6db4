# What the scripts beside this file share. Sourced by them, never run.

set -euo pipefail

# Absolute, because what follows leaves the caller's folder, to which $0 may be relative.
script=$(cd -- "$(dirname -- "$0")" && pwd)/$(basename -- "$0")
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$root"

say() { printf '%s\n' "$*" >&2; }

# Ends with a sentence. 3 is the exit code of `profile`, too, where the machine lacks something.
die() {
  say "$(basename -- "$0"): $*"
  exit 3
}

# Prints the header of the calling script, up to its first line that is no comment: that is its help.
help_from_header() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$script"; }

need_build_tools() {
  command -v cargo >/dev/null || die "cargo is not on the PATH; install Rust as https://rustup.rs says and run this again."
  command -v python3 >/dev/null || die "python3 is not on the PATH; install Python 3.8 or newer with pip and run this again."
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' \
    || die "$(python3 --version 2>&1) is too old; install Python 3.8 or newer with pip and run this again."
  command -v "${CXX:-c++}" >/dev/null \
    || die "there is no C++ compiler (${CXX:-c++}); install g++ (on Debian: apt install g++) and run this again."
}

# executables_of ARGUMENT OF cargo...: builds, and prints the path of each program and test, a line each. cargo itself is
# asked where they are, because CARGO_TARGET_DIR and configuration files can put them anywhere.
executables_of() {
  cargo "$@" --message-format=json-render-diagnostics | python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    built = message["reason"] == "compiler-artifact" and message["executable"]
    if built and message["target"]["kind"] in (["bin"], ["test"]):
        print(message["executable"])'
}

# failed NAME CODE BEGIN: ends with the exit code of the step that failed.
failed() {
  say "$(basename -- "$0"): $1 failed after $((SECONDS - $3)) s; the reason stands above."
  exit "$2"
}

# Says every half a minute that a step goes on, until it is killed or the script has ended. Bash itself waits: a `sleep` would
# outlive the kill.
say_progress() {
  local name=$1 begin=$SECONDS
  while read -r -t 30 <> <(:); [ $? -gt 128 ] && kill -0 $$ 2>/dev/null; do
    say "   $name: $((SECONDS - begin)) s so far"
  done
}

# step NAME COMMAND ARGUMENT...: runs a command and keeps how long it took. bash does not heed `set -e` in what stands
# before `||`, so a function that is run this way returns its errors itself.
step() {
  local name=$1 begin=$SECONDS
  shift
  say "== $name"
  # A step of a script that is itself a step says nothing more.
  local progress='' code=0
  if [ -z "${TANDEM_STEP-}" ]; then say_progress "$name" & progress=$!; fi
  TANDEM_STEP=$name "$@" || code=$?
  [ -z "$progress" ] || { kill "$progress" && wait "$progress" 2>/dev/null || true; }
  [ "$code" -eq 0 ] || failed "$name" "$code" "$begin"
  durations+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
}
durations=()

# together COMMAND OTHER: runs two functions at the same time, and fails if one of them does.
together() {
  # Bash lets commands in the background ignore Ctrl-C.
  trap 'trap - INT; kill 0' INT
  # Two progress bars of cargo would overwrite each other.
  local -x CARGO_TERM_PROGRESS_WHEN=never
  "$2" & local other=$! code=0
  ("$1") || code=$?
  wait "$other" || code=$?
  trap - INT
  return "$code"
}

# Where the time went, one line a step.
say_durations() { printf '%s\n' "${durations[@]}" >&2; }
