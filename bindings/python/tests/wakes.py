"""Counts how often the library wakes threads that wait for a condition: a library that is loaded before the others."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int count;
int wake_count(void) { return atomic_load(&count); }

/* Python's own threads wake one another, too. */
static int wake(const char *name, void *caller, pthread_cond_t *condition) {
  Dl_info place;
  if (dladdr(caller, &place) && strstr(place.dli_fname, "libmsgqueue")) atomic_fetch_add(&count, 1);
  int (*function)(pthread_cond_t *) = (int (*)(pthread_cond_t *))dlsym(RTLD_NEXT, name);
  return function(condition);
}
int pthread_cond_signal(pthread_cond_t *condition) {
  return wake("pthread_cond_signal", __builtin_return_address(0), condition);
}
int pthread_cond_broadcast(pthread_cond_t *condition) {
  return wake("pthread_cond_broadcast", __builtin_return_address(0), condition);
}
"""


def build(place: Path) -> Path:
    """Compiles the library, for `LD_PRELOAD`."""
    source, library = place / "wakes.c", place / "wakes.so"
    source.write_text(_SOURCE)
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def done() -> int:
    """How often the library has called a function that wakes threads in this process."""
    return int(ctypes.CDLL(None).wake_count())
