#!/bin/sh
# Installs the programs of this archive with their completions and manual pages.
#
#   ./install.sh PREFIX                # for example ~/.local: PREFIX/bin, PREFIX/share
#   ./install.sh --uninstall PREFIX
#
# PREFIX/share/tandem/installed.txt lists the installed files with their SHA-256. A file that is on the list and unchanged is ours: it
# is replaced by a newer version, and removed by --uninstall. If any other file has the name of one of ours, nothing is installed.
# --uninstall leaves files that were changed, and names them. Folders are removed only if installing made them and they are empty.
set -eu

list=share/tandem/installed.txt
folders=share/tandem/folders.txt

temporary=
trap 'if [ -n "$temporary" ]; then rm -f -- "$temporary"; fi' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

die() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 2
}

digest() { sha256sum <"$1" | cut -c 1-64; }

# is_ours FILE: whether the list has this file with the digest that it has now.
is_ours() {
  [ -f "$prefix/$1" ] && [ ! -L "$prefix/$1" ] && [ -f "$prefix/$list" ] \
    && grep -qxF "$(digest "$prefix/$1")  $1" "$prefix/$list"
}

# note_folder FOLDER: notes a folder of PREFIX and those above it, each if it is not there.
note_folder() {
  [ "$1" != . ] || return 0
  [ ! -d "$prefix/$1" ] || return 0
  note_folder "$(dirname -- "$1")"
  case "
$made" in *"
$1
"*) return 0 ;; esac
  made="$made$1
"
}

# begin FILE: makes a new file beside a file of PREFIX, under a name that no other file has. An interruption removes it.
begin() { temporary=$(mktemp -- "$prefix/$1.XXXXXX"); }

# put FILE: gives the new file its name. A link of that name is replaced and not followed.
put() {
  mv -- "$temporary" "$prefix/$1"
  temporary=
}

# write FILE LINES: writes a file of PREFIX, with the permissions that the user gives to new files.
write() {
  begin "$1"
  printf '%s\n' "$2" >"$temporary"
  chmod =rw -- "$temporary"
  put "$1"
}

# digests: the lines of the list for the files of the archive.
digests() { for file in $files; do printf '%s  %s\n' "$(digest "$archive/$file")" "$file"; done; }

install_all() {
  archive=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
  files=$(cd -- "$archive" && find bin share -type f | LC_ALL=C sort)
  [ -n "$files" ] || die "$archive has no bin and share; run the install.sh of an unpacked archive."
  taken=
  for file in $files; do
    if { [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; } && ! is_ours "$file"; then
      taken="$taken $prefix/$file"
    fi
  done
  [ -z "$taken" ] || die "not installed, because these files are not of this program or were changed; move them away:$taken"
  mkdir -p -- "$prefix"
  made=
  if [ -f "$prefix/$folders" ]; then
    made=$(cat -- "$prefix/$folders")
    made="$made
"
  fi
  # The list of folders has a folder before it is there, except for its own: they are noted right after.
  note_folder share/tandem
  for file in $files; do note_folder "$(dirname -- "$file")"; done
  mkdir -p -- "$prefix/share/tandem"
  write "$folders" "$made"
  # Files of an older version that this one does not have.
  if [ -f "$prefix/$list" ]; then
    cut -c 67- "$prefix/$list" | while IFS= read -r file; do
      if [ ! -e "$archive/$file" ] && is_ours "$file"; then rm -- "$prefix/$file"; fi
    done
  fi
  # The list has a file before the file is there: an interrupted installation can be repeated and removed.
  write "$list" "$(digests; if [ -f "$prefix/$list" ]; then cat -- "$prefix/$list"; fi)"
  for file in $files; do
    mkdir -p -- "$(dirname -- "$prefix/$file")"
    begin "$file"
    cp -p -- "$archive/$file" "$temporary"
    put "$file"
  done
  write "$list" "$(digests)"
  printf 'Installed in %s: %s files; they are listed in %s\n' "$prefix" "$(printf '%s\n' "$files" | wc -l)" "$prefix/$list" >&2
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) printf '%s is not on the PATH\n' "$prefix/bin" >&2 ;;
  esac
}

uninstall() {
  [ -f "$prefix/$list" ] || die "$prefix/$list does not exist; nothing was installed there by this script."
  cut -c 67- "$prefix/$list" | LC_ALL=C sort -u | while IFS= read -r file; do
    # A list that was tampered with names nothing outside of PREFIX.
    case "/$file/" in */../*) continue ;; esac
    if is_ours "$file"; then
      rm -- "$prefix/$file"
    elif [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; then
      printf 'left, because it was changed: %s\n' "$prefix/$file" >&2
    fi
  done
  made=
  if [ -f "$prefix/$folders" ]; then made=$(cat -- "$prefix/$folders"); fi
  rm -f -- "$prefix/$list" "$prefix/$folders"
  printf '%s\n' "$made" | LC_ALL=C sort -r | while IFS= read -r folder; do
    case "/$folder/" in // | */../*) continue ;; esac
    rmdir -- "$prefix/$folder" 2>/dev/null || true
  done
}

case ${1-} in
  -h | --help | '') sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0" ;;
  --uninstall)
    [ $# -eq 2 ] || die "write ./install.sh --uninstall PREFIX"
    prefix=$2
    uninstall ;;
  -*) die "there is no option $1; see ./install.sh --help" ;;
  *)
    [ $# -eq 1 ] || die "write ./install.sh PREFIX"
    prefix=$1
    install_all ;;
esac
