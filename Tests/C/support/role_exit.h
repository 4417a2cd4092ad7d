/* The role "end-while-sending": a process that exits in a given way with attempts in flight and a drain running. */
#ifndef ROLE_EXIT_H
#define ROLE_EXIT_H

int role_end_while_sending(const char *path, const char *way);

#endif
