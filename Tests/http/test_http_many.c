/* bindings/c/http.c: many messages in flight, and a process that is killed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "site.h"

/* What the server has received: for each message how often, and how often out of order in its conversation. */
struct received {
  int messages, requests, disorder;
};

enum { conversations = 128 };

static struct received read_log(struct site *site, int count) {
  struct received found = { 0 };
  int *seen = calloc((size_t)count, sizeof *seen), last[conversations];
  REQUIRE(seen != NULL);
  for (int index = 0; index < conversations; index++) last[index] = -1;
  struct file_copy log = file_read(scene_file(&site->scene, "requests"));
  const char *place = log.bytes, *end = log.bytes + log.size;
  static const char mark[] = "Idempotency-Key: \"m";
  while (place < end && (place = memmem(place, (size_t)(end - place), mark, sizeof mark - 1)) != NULL) {
    int number = atoi(place += sizeof mark - 1);
    if (!CHECK(number >= 0 && number < count)) break;
    found.requests++;
    if (seen[number]++ > 0) continue;
    found.messages++;
    /* The first request for a message comes after the first ones for those before it. */
    if (number < last[number % conversations]) found.disorder++;
    else last[number % conversations] = number;
  }
  file_copy_free(&log);
  free(seen);
  return found;
}

static void enqueue_many(struct site *site, int count) {
  msgq_draft *drafts = calloc((size_t)count, sizeof *drafts);
  char(*texts)[2][16] = calloc((size_t)count, sizeof *texts);
  REQUIRE(drafts != NULL && texts != NULL);
  for (int number = 0; number < count; number++) {
    snprintf(texts[number][0], sizeof texts[number][0], "m%d", number);
    snprintf(texts[number][1], sizeof texts[number][1], "c%d", number % conversations);
    drafts[number] = (msgq_draft){ .struct_size = sizeof *drafts, .id = texts[number][0], .conversation = texts[number][1],
                                   .body = "hello", .body_size = 5 };
  }
  REQUIRE_OK(msgq_enqueue_batch(site->scene.queue, drafts, (size_t)count, NULL));
  free(drafts);
  free(texts);
}

TEST(B2_http_ten_thousand_messages_with_64_in_flight) {
  int count = check_times(10000, 500);
  struct site site;
  site_begin_wide(&site, 64);
  enqueue_many(&site, count);
  site_use(&site, "/status/200");
  CHECK_NUMBER(count, drain(&site.scene).sent);
  struct received found = read_log(&site, count);
  CHECK_NUMBER(count, found.messages);
  CHECK_NUMBER(count, found.requests);
  CHECK_NUMBER(0, found.disorder);
  /* No connection was made while 64 were there. */
  CHECK_NUMBER(0, site_count(&site, "connection=69\t"));
  site_end(&site);
}

/* Opens the queue and sends until it is killed, or (the last time) until everything is sent. */
static void send_in_a_child(struct site *site) {
  site_open(site);
  site_use(site, "/slow/1");
  drain(&site->scene);
  scene_close(&site->scene);
}

TEST_ALONE(B2_http_a_killed_process_loses_nothing) {
  enum { count = 4000, kills = 5 };
  struct site site;
  site_begin_wide(&site, 64);
  enqueue_many(&site, count);
  scene_close(&site.scene);
  journal_end(&site.scene.journal);
  journal_begin(&site.scene.journal);
  int ended = 0;
  for (int turn = 1; turn <= kills; turn++) {
    pid_t child = child_fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      send_in_a_child(&site);
      child_end();
    }
    int status = 0;
    while (read_log(&site, count).messages < turn * count / (kills + 1) && waitpid(child, &status, WNOHANG) == 0) pause_ms(2);
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) == child && !WIFSIGNALED(status)) ended++;
  }
  CHECK_NUMBER(0, ended);
  site_open(&site);
  site_use(&site, "/slow/1");
  drain(&site.scene);
  AWAIT(counts_of(&site.scene, NULL).sent == count);
  struct received found = read_log(&site, count);
  CHECK_NUMBER(count, found.messages);
  CHECK_NUMBER(0, found.disorder);
  /* What was in flight at a kill, and what was answered since the last commit, came again under the same key. */
  CHECK(found.requests >= count && found.requests <= count + kills * 2 * 64);
  site_end(&site);
}

TEST(B2_http_nothing_is_lost_when_connections_are_cut_all_the_time) {
  /* Each request is the last of its connection, and each second one gets no answer. */
  int count = check_times(500, 60);
  static int64_t ladder[60];
  struct site site;
  site_prepare(&site);
  site.scene.options.max_in_flight = 16;
  set_ladder(&site.scene, ladder, 60);
  site.scene.options.max_retries = 60;
  site.scene.options.backoff = MSGQ_BACKOFF_LADDER;
  site_open(&site);
  enqueue_many(&site, count);
  site_use(&site, "/reused");
  for (int64_t end = steady_ms() + check_timeout_ms(); counts_of(&site.scene, NULL).sent < (uint64_t)count && steady_ms() < end;) drain(&site.scene);
  CHECK_NUMBER(count, counts_of(&site.scene, NULL).sent);
  struct received found = read_log(&site, count);
  CHECK_NUMBER(count, found.messages);
  CHECK(found.requests > count);
  CHECK_NUMBER(0, found.disorder);
  site_end(&site);
}
