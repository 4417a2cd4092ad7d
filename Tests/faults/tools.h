/* The tools: each prints its failures and one last line, and answers with its exit code. */
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

/* Where traces are kept that show a failure. */
const char *traces_directory(void);
/* Plays a scene in a child and records it. */
bool record_scene(enum scene scene, unsigned length, const char *trace, char *why, size_t room);

#endif
