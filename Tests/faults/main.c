/*
 * The fault tools in one program:
 *
 *     faults TOOL [--soak] [--seed N] [--images N] [--scene NAME] [--case N] [--trace FILE] [--workers N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "pool.h"
#include "tools.h"

static const struct {
  const char *name;
  int (*run)(void);
} tools[] = {
  { "powerloss", tool_powerloss },
  { "recovery", tool_recovery },
  { "failflush", tool_failflush },
  { "iofail", tool_iofail },
  { "kills", tool_kills },
  { "fulldisk", tool_fulldisk },
  { "damage", tool_damage },
  { "alloc", tool_alloc },
  { "openings", tool_openings },
  { "selftest", tool_selftest },
  { "outbox", tool_outbox },
};

const char *traces_directory(void) {
  static char path[4096];
  const char *base = getenv("FAULTS_TRACES");
  snprintf(path, sizeof path, "%s", base != NULL ? base : "/tmp");
  mkdir(path, 0700);
  return path;
}

static int usage(void) {
  fprintf(stderr, "faults TOOL [--soak] [--seed N] [--images N] [--scene NAME] [--case N] [--trace FILE] [--workers N]\n");
  return 2;
}

int main(int count, char **arguments) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  settings.only = -1;
  bool has_seed = false;
  settings.workers = 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count < 2) return usage();
  for (int index = 2; index < count; index++) {
    const char *name = arguments[index], *value = index + 1 < count ? arguments[index + 1] : NULL;
    if (strcmp(name, "--soak") == 0) settings.full = true;
    else if (value == NULL) return usage();
    else if (strcmp(name, "--seed") == 0) settings.seed = strtoull(value, NULL, 10), has_seed = true;
    else if (strcmp(name, "--images") == 0) settings.images = strtol(value, NULL, 10);
    else if (strcmp(name, "--scene") == 0) settings.scene = value;
    else if (strcmp(name, "--case") == 0) settings.only = strtol(value, NULL, 10);
    else if (strcmp(name, "--trace") == 0) settings.trace = value;
    else if (strcmp(name, "--workers") == 0) settings.workers = atoi(value);
    else return usage();
    if (strcmp(name, "--soak") != 0) index++;
  }
  /* The short run has the same seed every time, the full run another one each time. */
  if (!has_seed) settings.seed = settings.full ? (uint64_t)now.tv_nsec % 1000000 : 1;
  if (settings.workers < 1 || settings.workers > 16) return usage();
  for (size_t index = 0; index < sizeof tools / sizeof tools[0]; index++) {
    if (strcmp(tools[index].name, arguments[1]) != 0) continue;
    printf("%s: seed %llu\n", tools[index].name, (unsigned long long)settings.seed);
    return tools[index].run();
  }
  return usage();
}
