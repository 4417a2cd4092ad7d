/* Networks with many fast changes (H8, A5). Each test has its own network namespace. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "net.h"
#include "process.h"
#include "stub.h"

/* Writes a file of commands for ip -batch. */
static const char *write_batch(struct scene *scene, const char *const *commands, size_t count, int times) {
  const char *path = scene_file(scene, "batch");
  FILE *file = fopen(path, "we");
  REQUIRE(file != NULL);
  for (int time = 0; time < times; time++) {
    for (size_t index = 0; index < count; index++) fprintf(file, "%s\n", commands[index]);
  }
  CHECK(fclose(file) == 0);
  return path;
}

static void *run_batch(void *path) {
  net_run("ip -batch %s", (const char *)path);
  return NULL;
}

/* Checks that each connectivity event differs from the one before it. */
static void check_alternation(struct journal *journal) {
  const struct entry *last = NULL;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count; index++) {
    const struct entry *entry = &journal->entries[index];
    if (entry->kind != MSGQ_EVENT_CONNECTIVITY) continue;
    if (last != NULL) CHECK(last->connectivity != entry->connectivity);
    last = entry;
  }
  pthread_mutex_unlock(&journal->lock);
}

static void flap(const char *const *commands, size_t count, int times, int messages) {
  struct scene scene;
  struct stub stub;
  pthread_t thread;
  char path[128];
  net_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  net_pair("va", 1);
  net_run("ip route add default via 10.0.1.2");
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  snprintf(path, sizeof path, "%s", write_batch(&scene, commands, count, times));
  REQUIRE(pthread_create(&thread, NULL, run_batch, path) == 0);
  for (int number = 0; number < messages; number++) put(&scene, NULL, number % 2 == 0 ? "ana" : "ben", "hello");
  pthread_join(thread, NULL);
  AWAIT(counts_of(&scene, NULL).sent == (uint64_t)messages);
  CHECK_NUMBER(messages, atomic_load(&stub.calls)); /* each message once */
  AWAIT(net_stays(&scene, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET)); /* after all events */
  size_t events = journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY);
  if (!CHECK(events <= 1 + 2 * (size_t)times)) fprintf(stderr, "  %zu events for %d changes\n", events, times);
  check_alternation(&scene.journal);
  scene_end(&scene);
}

TEST_NETWORK(H8_A5_a_thousand_route_changes_send_each_message_once) {
  static const char *const commands[] = { "route del default", "route add default via 10.0.1.2" };
  flap(commands, 2, 1000, 300);
}

TEST_NETWORK(H8_A5_a_hundred_link_changes_send_each_message_once) {
  static const char *const commands[] = { "link set va down", "link set va up", "route add default via 10.0.1.2" };
  flap(commands, 3, 100, 100);
}

/* Returns the number of messages that the kernel dropped for the netlink sockets of this namespace. */
static long drops(void) {
  char line[256];
  long total = 0;
  FILE *file = fopen("/proc/net/netlink", "re");
  REQUIRE(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    long dropped = 0;
    if (sscanf(line, "%*s %*d %*u %*x %*d %*d %*s %*d %ld", &dropped) == 1) total += dropped;
  }
  fclose(file);
  return total;
}

/* Stops this process while `ip -batch` runs, so that the netlink messages are not read. */
static void change_while_stopped(const char *batch) {
  pid_t self = getpid();
  fflush(NULL);
  pid_t other = fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    char command[256];
    snprintf(command, sizeof command, "sleep 0.1; ip -batch %s; kill -CONT %ld", batch, (long)self);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  raise(SIGSTOP);
}

TEST_NETWORK(H8_lost_netlink_messages_are_recovered) {
  struct scene scene;
  net_begin_online(&scene);
  /* Thousands of irrelevant routes and after them the default route, whose message is lost with the others. */
  const char *path = scene_file(&scene, "batch");
  for (int online = 0; online < 2; online++) {
    FILE *file = fopen(path, "we");
    REQUIRE(file != NULL);
    for (int number = 0; number < 4000; number++) {
      fprintf(file, "route %s 10.%d.%d.%d/32 dev va\n", online == 0 ? "add" : "del", 100 + number / 65536, number / 256 % 256, number % 256);
    }
    fprintf(file, online == 0 ? "route del default\n" : "route add default via 10.0.1.2\n");
    CHECK(fclose(file) == 0);
    long before = drops();
    change_while_stopped(path);
    CHECK(drops() > before); /* otherwise the test shows nothing */
    if (online == 0) AWAIT_OFFLINE(&scene);
    else AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  }
  CHECK_NUMBER(3, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  /* The monitor continues. */
  net_run("ip route del default");
  AWAIT_OFFLINE(&scene);
  scene_end(&scene);
}

TEST_NETWORK(H8_irrelevant_routes_use_little_processor_time) {
  struct scene scene;
  net_begin_online(&scene);
  static const char *const commands[] = { "route add 10.50.0.0/16 dev va", "route del 10.50.0.0/16 dev va" };
  const char *path = write_batch(&scene, commands, 2, 2000);
  int64_t cpu = process_cpu_ms();
  net_run("ip -batch %s", path);
  pause_ms(50);
  int64_t used = process_cpu_ms() - cpu;
  if (!CHECK(used < 500)) fprintf(stderr, "  4,000 changes cost %lld ms\n", (long long)used);
  CHECK_NUMBER(1, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  scene_end(&scene);
}

static atomic_int moves;

/* Gives `to` a carrier and a default route, and takes both from `from`. At each moment one of them has both. */
static void move(const char *from, const char *to, int number) {
  net_run("ip link set %s-peer up && until ip link show %s | grep -q 'state UP'; do sleep 0.005; done", to, to);
  net_run("ip route add default via 10.0.%d.2 dev %s metric %d && ip route del default dev %s", number, to, number, from);
  net_run("ip link set %s-peer down && while ip link show %s | grep -q 'state UP'; do sleep 0.005; done", from, from);
  atomic_fetch_add(&moves, 1);
}

static void move_to_va(void) { move("vb", "va", 1); }
static void move_to_vb(void) { move("va", "vb", 2); }

/* The monitor reads links, addresses and routes by one request each. Here another link takes over between two of the requests. */
TEST_NETWORK(H8_a_change_while_the_state_is_read_is_not_taken_for_offline) {
  struct scene scene;
  net_begin_online(&scene);
  net_pair("vb", 2);
  net_run("ip link set vb-peer down");
  for (int expected = 1; expected <= 12; expected++) {
    fault_before_send((expected + 1) / 2, expected % 2 == 1 ? move_to_vb : move_to_va);
    while (atomic_load(&moves) < expected) {
      /* Each of these changes makes the monitor read the state. */
      net_run("ip address add 10.0.3.1/24 dev lo && ip address del 10.0.3.1/24 dev lo");
      pause_ms(10);
    }
    CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET));
  }
  CHECK_NUMBER(1, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  scene_end(&scene);
}

TEST_NETWORK(H8_a_failed_netlink_request_is_repeated) {
  struct scene scene;
  net_begin_online(&scene);
  /* No further netlink message arrives after the failed requests, so the monitor has to repeat them by itself. */
  atomic_store(&fault_sends, 2);
  int64_t start = steady_ms();
  net_run("ip route del default");
  AWAIT_OFFLINE(&scene);
  CHECK_NUMBER(0, atomic_load(&fault_sends));
  CHECK(steady_ms() - start < check_timeout_ms() / 2);
  /* msgq_monitor_start fails when its first request fails. */
  REQUIRE_OK(msgq_monitor_stop(scene.queue));
  atomic_store(&fault_sends, 1);
  CHECK_RESULT(MSGQ_STORAGE, msgq_monitor_start(scene.queue));
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_OTHER, false));
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_OFFLINE(&scene);
  scene_end(&scene);
}
