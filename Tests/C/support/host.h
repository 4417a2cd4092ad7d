/* A host application with its own event loop around a polled queue. */
#ifndef HOST_H
#define HOST_H

#include "scene.h"
#include "stub.h"

/* A polled queue with a transport, and an epoll that watches it. */
struct host {
  struct scene scene;
  struct stub stub;
  int epoll;
};

void host_begin(struct host *host, msgq_mode mode);
/* The two parts of host_begin; the options may be changed between them. */
void host_prepare(struct host *host, msgq_mode mode);
void host_open(struct host *host);
void host_end(struct host *host);
bool epoll_is_readable(const struct host *host, int timeout_ms);
/* Waits for the descriptor and calls msgq_poll once. Returns false when the descriptor was not readable in time. */
bool poll_once(struct host *host, int timeout_ms);
void poll_until_idle(struct host *host);

#endif
