# Functions that the scripts in this folder share. They source it and never run it.

set -euo pipefail

# Absolute, because the scripts change the folder, and $0 may be relative.
script=$(cd -- "$(dirname -- "$0")" && pwd)/$(basename -- "$0")
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$root"

say() { printf '%s\n' "$*" >&2; }

# Ends with a sentence. 3 is also the exit code of `profile` if the machine lacks something.
die() {
  say "$(basename -- "$0"): $*"
  exit 3
}

# Prints the header of the calling script, up to its first line that is no comment, as its help.
help_from_header() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$script"; }

need_build_tools() {
  command -v cargo >/dev/null || die "cargo is not on the PATH; install Rust as https://rustup.rs says and run this again."
  command -v python3 >/dev/null || die "python3 is not on the PATH; install Python 3.8 or newer with pip and run this again."
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' \
    || die "$(python3 --version 2>&1) is too old; install Python 3.8 or newer with pip and run this again."
  command -v "${CXX:-c++}" >/dev/null \
    || die "there is no C++ compiler (${CXX:-c++}); install g++ (on Debian: apt install g++) and run this again."
}

# built NAME SCOPE COMMAND OF cargo ARGUMENT...: builds in release, says how far it is, and prints what
# scripts/built.py prints of each program and test. SCOPE is `harness`, which needs no libtorch, or `all`, which
# also has torch-worker. Both share what they compile, because torch-worker is never built without the harness.
built() {
  local name=$1 scope=() edges=normal,build packages
  [ "$2" = harness ] || scope=(--workspace)
  [ "$3" = build ] || edges+=,dev
  packages=$(cargo tree --locked --prefix none --edges "$edges" ${scope[@]+"${scope[@]}"} | sort -u | wc -l)
  cargo "${@:3}" --release --locked ${scope[@]+"${scope[@]}"} --message-format=json-render-diagnostics \
    | python3 scripts/built.py "$name" "$packages"
}

# The paths of what was built, one per line.
paths_of() { sed -n 's/^{"path": "\([^"]*\)".*/\1/p'; }

# failed NAME CODE BEGIN: ends with the exit code of the step that failed.
failed() {
  say "$(basename -- "$0"): $1 failed after $((SECONDS - $3)) s; the reason is above."
  exit "$2"
}

# Reports every half minute that a step is running, until it is killed or the script has ended. Bash itself
# waits, because a `sleep` would outlive the kill.
say_progress() {
  local name=$1 begin=$SECONDS
  while read -r -t 30 <> <(:); [ $? -gt 128 ] && kill -0 $$ 2>/dev/null; do
    say "   $name: $((SECONDS - begin)) s so far"
  done
}

# step NAME COMMAND ARGUMENT...: runs a command and records its duration; ends the script if it fails. bash
# ignores `set -e` in a command before `||`, so a function that is run this way must return its errors itself.
step() {
  local begin=$SECONDS code=0
  try_step "$@" || code=$?
  [ "$code" -eq 0 ] || failed "$1" "$code" "$begin"
}

# The same, but returns the exit code of a command that fails.
try_step() {
  local name=$1 begin=$SECONDS
  shift
  say "== $name"
  # If the script is itself a step of another one, only that one reports progress.
  local progress='' code=0
  if [ -z "${TANDEM_STEP-}" ]; then say_progress "$name" & progress=$!; fi
  TANDEM_STEP=$name "$@" || code=$?
  [ -z "$progress" ] || { kill "$progress" && wait "$progress" 2>/dev/null || true; }
  durations+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
  return "$code"
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

# Prints the duration of each step, one per line.
say_durations() { printf '%s\n' "${durations[@]}" >&2; }
