#include "net.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static int run(const char *format, va_list arguments, const char *suffix) {
  char command[512];
  int length = vsnprintf(command, sizeof command, format, arguments);
  REQUIRE(length >= 0 && (size_t)length < sizeof command - 32);
  snprintf(command + length, sizeof command - (size_t)length, "%s", suffix);
  int status = system(command);
  int code = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code != 0 && suffix[0] == '\0') fprintf(stderr, "  failed (%d): %s\n", code, command);
  return code;
}

void net_run(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int code = run(format, arguments, "");
  va_end(arguments);
  REQUIRE(code == 0);
}

bool net_try(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int code = run(format, arguments, " >/dev/null 2>&1");
  va_end(arguments);
  return code == 0;
}

void net_pair(const char *name, int number) {
  if (!net_try("ip link add %s type veth peer name %s-peer", name, name)) SKIP("the kernel does not support veth links");
  net_run("ip link set %s up", name);
  net_run("ip link set %s-peer up", name);
  net_run("ip address add 10.0.%d.1/24 dev %s", number, name);
}

void net_begin(struct scene *scene) {
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.direct = true;
  scene_open(scene);
}

bool net_is(struct scene *scene, msgq_connectivity connectivity, msgq_link link) {
  struct entry last;
  return journal_last(&scene->journal, MSGQ_EVENT_CONNECTIVITY, &last) && last.connectivity == connectivity && last.link == link &&
         !last.metered;
}

bool net_stays(struct scene *scene, msgq_connectivity connectivity, msgq_link link) {
  for (int time = 0; time < 20; time++) {
    if (!net_is(scene, connectivity, link)) return false;
    pause_ms(5);
  }
  return true;
}

void net_begin_online(struct scene *scene) {
  net_begin(scene);
  net_pair("va", 1);
  net_run("ip route add default via 10.0.1.2");
  REQUIRE_OK(msgq_monitor_start(scene->queue));
  AWAIT_ONLINE(scene, MSGQ_LINK_ETHERNET);
}
