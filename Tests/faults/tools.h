/* The tools. Each prints its failures and a summary line, and returns its exit code. */
#ifndef FAULTS_TOOLS_H
#define FAULTS_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "driver.h"

int tool_powerloss(void);
int tool_failflush(void);
int tool_recovery(void);
int tool_iofail(void);
int tool_kills(void);
int tool_fulldisk(void);
int tool_damage(void);
int tool_alloc(void);
int tool_openings(void);
int tool_selftest(void);
int tool_outbox(void);

/* Returns the directory of traces that show a failure. */
const char *traces_directory(void);
/* Runs a scene in a child process and records it. */
bool record_scene(enum scene scene, unsigned length, const char *trace, char *why, size_t room);

#endif
