#include "host.h"

#include <sys/epoll.h>
#include <unistd.h>

void host_prepare(struct host *host, msgq_mode mode) {
  scene_begin(&host->scene);
  stub_begin(&host->stub, MSGQ_VERDICT_SENT);
  host->scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  host->scene.options.mode = mode;
  host->scene.options.direct = mode == MSGQ_MODE_AUTO;
}

void host_begin(struct host *host, msgq_mode mode) {
  host_prepare(host, mode);
  host_open(host);
}

void host_open(struct host *host) {
  scene_open(&host->scene);
  REQUIRE_OK(msgq_set_transport(host->scene.queue, stub_send, &host->stub, stub_release));
  host->epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event interest = { .events = EPOLLIN };
  REQUIRE(host->epoll >= 0);
  REQUIRE(epoll_ctl(host->epoll, EPOLL_CTL_ADD, msgq_fd(host->scene.queue), &interest) == 0);
}

void host_end(struct host *host) {
  close(host->epoll);
  scene_end(&host->scene);
}

bool epoll_is_readable(const struct host *host, int timeout_ms) {
  struct epoll_event event;
  return epoll_wait(host->epoll, &event, 1, timeout_ms) == 1;
}

bool poll_once(struct host *host, int timeout_ms) {
  if (!epoll_is_readable(host, timeout_ms)) return false;
  CHECK_RESULT(MSGQ_OK, msgq_poll(host->scene.queue, 0, NULL));
  return true;
}

void poll_until_idle(struct host *host) {
  while (poll_once(host, 50)) continue;
}
