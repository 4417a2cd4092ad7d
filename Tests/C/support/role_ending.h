/* The role "end-while-sending": a process that ends in one of many ways, with attempts in flight and a drain running. */
#ifndef ROLE_ENDING_H
#define ROLE_ENDING_H

int role_end_while_sending(const char *path, const char *way);

#endif
