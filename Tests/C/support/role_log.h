/* The role "log": a process whose standard error is not what one hopes for, with warnings to write there. */
#ifndef ROLE_LOG_H
#define ROLE_LOG_H

int role_log(const char *path, const char *way);

#endif
