/* A host with an event loop of its own around a polled queue. */
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
void host_end(struct host *host);
bool epoll_says(const struct host *host, int timeout_ms);
/* One turn of its loop; false: nothing came in this time. */
bool turn(struct host *host, int timeout_ms);
void turn_until_quiet(struct host *host);

#endif
