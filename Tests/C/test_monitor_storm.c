/* Networks that change faster than anybody looks (H8, A5). Each test has a network of its own. */
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

/* A file of commands for ip -batch. */
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

/* Each event says something else than the one before it. */
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
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  AWAIT(counts_of(&scene, NULL).sent == (uint64_t)messages);
  CHECK_NUMBER(messages, atomic_load(&stub.calls)); /* each once */
  size_t told = journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY);
  if (!CHECK(told <= 1 + 2 * (size_t)times)) fprintf(stderr, "  %zu events of %d changes\n", told, times);
  check_alternation(&scene.journal);
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET));
  scene_end(&scene);
}

TEST_NETWORK(H8_A5_a_thousand_flaps_of_the_route) {
  static const char *const commands[] = { "route del default", "route add default via 10.0.1.2" };
  flap(commands, 2, 1000, 300);
}

TEST_NETWORK(H8_A5_a_hundred_flaps_of_the_link) {
  static const char *const commands[] = { "link set va down", "link set va up", "route add default via 10.0.1.2" };
  flap(commands, 3, 100, 100);
}

/* Messages that the kernel could not give to this process's routing sockets. */
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

/* Stops this process while `ip -batch` runs, so that nobody takes the kernel's news. */
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

TEST_NETWORK(H8_news_that_were_lost_do_not_matter) {
  struct scene scene;
  net_begin_online(&scene);
  /* Thousands of routes that do not matter, and behind them, lost with the rest, the one that does. */
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
    CHECK(drops() > before); /* otherwise nothing was shown */
    if (online == 0) AWAIT_OFFLINE(&scene);
    else AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  }
  CHECK_NUMBER(3, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  /* And it hears on. */
  net_run("ip route del default");
  AWAIT_OFFLINE(&scene);
  scene_end(&scene);
}

TEST_NETWORK(H8_routes_that_do_not_matter_wake_nobody_for_long) {
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

TEST_NETWORK(H8_a_question_that_fails_is_asked_again_soon) {
  struct scene scene;
  net_begin_online(&scene);
  /* What makes the kernel tell of it is over when it could be asked. */
  atomic_store(&fault_sends, 2);
  int64_t start = steady_ms();
  net_run("ip route del default");
  AWAIT_OFFLINE(&scene);
  CHECK_NUMBER(0, atomic_load(&fault_sends));
  CHECK(steady_ms() - start < check_patience_ms() / 2);
  /* Where it cannot be asked at all, it does not begin. */
  REQUIRE_OK(msgq_monitor_stop(scene.queue));
  atomic_store(&fault_sends, 1);
  CHECK_RESULT(MSGQ_STORAGE, msgq_monitor_start(scene.queue));
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_OTHER, false));
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_OFFLINE(&scene);
  scene_end(&scene);
}
