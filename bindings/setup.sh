# What a fresh machine needs to build libmsgqueue, and the build itself. Sourced by bindings/demo and Tests/run, so that
# both build the same thing with the same flags and neither builds it twice.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
library=$root/.build/release/libmsgqueue.so
# The Python binding takes this one and no other that the system may have.
export MSGQUEUE_LIBRARY=$library

has() { command -v "$1" >/dev/null 2>&1; }

# The compiler checks each exported function against the header (@implementation of C functions): new in 6.3.
need_swift() {
  local version
  if ! has swift; then
    echo "Swift 6.3 or later is needed and there is no 'swift' in the PATH." >&2
    echo "Install it as https://www.swift.org/install/linux says, then run this again." >&2
    return 1
  fi
  version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
  if [ "$(printf '%s\n' 6.3 "$version" | sort -V | head -n 1)" != 6.3 ]; then
    echo "Swift 6.3 or later is needed; this is ${version:-unknown} ($(command -v swift))." >&2
    return 1
  fi
}

# need_packages PACKAGE…: installs Debian packages when root, otherwise says what to type.
need_packages() {
  [ $# -gt 0 ] || return 0
  if ! has apt-get; then
    echo "Missing: $* (the names of Debian's packages; there is no apt-get here to install them with)." >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    echo "Missing: $*. Please type: sudo apt-get install $*" >&2
    return 1
  fi
  echo "installing $*"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@")
  # A fresh machine has no package lists, or old ones.
  "${install[@]}" || { apt-get update && "${install[@]}"; }
}

# What building needs: a C compiler for the platform's headers and start files, and SQLite's header.
need_build_tools() {
  local missing=()
  has gcc || missing+=(gcc libc6-dev)
  has python3 || missing+=(python3)
  [ -e /usr/include/sqlite3.h ] || missing+=(libsqlite3-dev)
  need_swift && need_packages "${missing[@]}"
}

# The release library: one file that carries the Swift runtime. (--static-swift-stdlib does nothing for a dynamic library.)
build_library() {
  (cd "$root" && swift build -c release -Xswiftc -static-stdlib -Xswiftc -warnings-as-errors --product msgqueue)
}
