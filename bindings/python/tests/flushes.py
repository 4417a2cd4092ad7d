"""Counts the flushes of a process, and lets one fail: a library that is loaded before the others, and its functions."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int count, failing;
int flush_count(void) { return atomic_load(&count); }
void flush_fail(void) { atomic_store(&failing, 1); }

static int flush(long number, int file) {
  if (atomic_exchange(&failing, 0)) { errno = EIO; return -1; }
  int result = (int)syscall(number, file);
  atomic_fetch_add(&count, 1);
  return result;
}
int fsync(int file) { return flush(SYS_fsync, file); }
int fdatasync(int file) { return flush(SYS_fdatasync, file); }
"""


def build(place: Path) -> Path:
    """Compiles the library, for `LD_PRELOAD`."""
    source, library = place / "flushes.c", place / "flushes.so"
    source.write_text(_SOURCE)
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def done() -> int:
    """The number of flushes of this process that have ended."""
    return int(ctypes.CDLL(None).flush_count())


def fail_next() -> None:
    """Lets the next flush of this process fail."""
    ctypes.CDLL(None).flush_fail()
