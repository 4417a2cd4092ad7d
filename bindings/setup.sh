# Installs what a fresh machine needs to build libmsgqueue, and builds it. Sourced by bindings/demo and Tests/run, so that
# both build with the same flags and share the result.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
library=$root/.build/release/libmsgqueue.so
# The Python package loads this file, not an installed one.
export MSGQUEUE_LIBRARY=$library

has() { command -v "$1" >/dev/null 2>&1; }

# The compiler checks each exported function against the header (@implementation of C functions): new in 6.3.
need_swift() {
  local version
  if ! has swift; then
    echo "Swift 6.3 or later is needed, but there is no 'swift' in the PATH." >&2
    echo "Install it as described at https://www.swift.org/install/linux, then run this again." >&2
    return 1
  fi
  version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
  if [ "$(printf '%s\n' 6.3 "$version" | sort -V | head -n 1)" != 6.3 ]; then
    echo "Swift 6.3 or later is needed; this is ${version:-unknown} ($(command -v swift))." >&2
    return 1
  fi
}

# need_packages PACKAGE…: installs Debian packages when run as root, otherwise prints the command.
need_packages() {
  [ $# -gt 0 ] || return 0
  if ! has apt-get; then
    echo "Missing: $* (names of Debian packages; apt-get is not available to install them)." >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    echo "Missing: $*. Please run: sudo apt-get install $*" >&2
    return 1
  fi
  echo "installing $*"
  # Another step of the tests may be installing packages, too.
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@")
  # On a fresh machine the package lists are missing or old.
  "${install[@]}" || { apt-get update && "${install[@]}"; }
}

# The build needs a C compiler with its headers and start files, the C++ library that the Swift runtime uses, and SQLite's header.
need_build_tools() {
  local missing=()
  has gcc || missing+=(gcc libc6-dev)
  has gcc && [ -e "$(gcc -print-file-name=libstdc++.so)" ] || missing+=(g++)
  has python3 || missing+=(python3)
  [ -e /usr/include/sqlite3.h ] || missing+=(libsqlite3-dev)
  need_swift && need_packages "${missing[@]}"
}

# The release library: one file that contains the Swift runtime. (--static-swift-stdlib has no effect on a dynamic library.)
# It needs nothing from its own directory, so that directory is not searched.
build_library() {
  (cd "$root" && swift build -c release -Xswiftc -static-stdlib -Xswiftc -warnings-as-errors --disable-local-rpath --product msgqueue)
}

# show_progress LOG: copies the output of a build to a file and shows its progress: on a terminal one line that is overwritten,
# otherwise a line every ten seconds.
show_progress() {
  local line width next=0
  width=$(tput cols 2>/dev/null) || width=80
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    if [[ $line != \[* ]]; then
      continue
    elif [ -t 1 ]; then
      printf '\r\033[K%.*s' $((width - 1)) "$line"
    elif [ $SECONDS -ge $next ]; then
      echo "  $line"
      next=$((SECONDS + 10))
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}
