/* The role "log": a process that writes warnings while its standard error is full, broken, closed or redirected. */
#ifndef ROLE_LOG_H
#define ROLE_LOG_H

int role_log(const char *path, const char *way);

#endif
