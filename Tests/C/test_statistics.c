/* Statistics as a struct and as Prometheus text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static msgq_statistics statistics_of(struct scene *scene) {
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  CHECK_RESULT(MSGQ_OK, msgq_stats(scene->queue, &statistics));
  return statistics;
}

/* Makes a queue with ten sent messages, one of them at its second attempt, one refused, one discarded, one expired, one queued, one
   recorded. */
static void begin_busy(struct post *post) {
  static const int64_t ladder[] = { 1 };
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_AUTO;
  post->scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  set_ladder(&post->scene, ladder, 1);
  post_open(post);
  receiver_answer(post->receiver, "m3", 503, 1, NULL);
  receiver_answer(post->receiver, "refused", 400, 1, NULL);
  receiver_answer(post->receiver, "discarded", 429, 2, NULL);
  for (int number = 0; number < 10; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post->scene, id, "ana", "12345");
  }
  put(&post->scene, "refused", "ben", "1");
  put(&post->scene, "discarded", "cem", "1");
  AWAIT(counts_of(&post->scene, NULL).sent == 10 && status_of(&post->scene, "discarded") == -1);
  AWAIT(status_of(&post->scene, "refused") == MSGQ_STATUS_FAILED);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "expired";
  draft.expires_at_ms = wall_ms() - 1;
  REQUIRE_OK(msgq_enqueue(post->scene.queue, &draft, NULL));
  AWAIT(status_of(&post->scene, "expired") == MSGQ_STATUS_FAILED);
  set_offline(&post->scene);
  put(&post->scene, "queued", "dana", "123");
  draft.id = "recorded";
  draft.expires_at_ms = 0;
  REQUIRE_OK(msgq_record(post->scene.queue, &draft, "ben", NULL));
}

TEST(X9_statistics_count_messages_and_attempts) {
  struct post post;
  int64_t before = wall_ms();
  begin_busy(&post);
  msgq_statistics statistics = statistics_of(&post.scene);
  CHECK_NUMBER(sizeof statistics, statistics.struct_size);
  CHECK(statistics.opened_ms >= before && statistics.opened_ms <= wall_ms());
  CHECK_NUMBER(14, statistics.enqueued); /* recorded messages do not count */
  CHECK_NUMBER(10 + 1 + 1 + 2, statistics.attempts);
  CHECK_NUMBER(10, statistics.sent);
  CHECK_NUMBER(50, statistics.sent_bytes);
  CHECK_NUMBER(2, statistics.retried);
  CHECK_NUMBER(2, statistics.failed);
  CHECK_NUMBER(1, statistics.discarded);
  CHECK_NUMBER(1, statistics.failures[MSGQ_FAILURE_SERVER]);
  CHECK_NUMBER(2, statistics.failures[MSGQ_FAILURE_RATE_LIMIT]);
  CHECK_NUMBER(1, statistics.failures[MSGQ_FAILURE_REJECTED]);
  CHECK_NUMBER(1, statistics.failures[MSGQ_FAILURE_EXPIRED]);
  CHECK_NUMBER(0, statistics.failures[MSGQ_FAILURE_NONE]);
  CHECK_NUMBER(0, statistics.failures[MSGQ_FAILURE_NETWORK]);
  uint64_t classes = 0;
  for (size_t index = 0; index < MSGQ_LATENCY_CLASSES; index++) classes += statistics.latencies[index];
  CHECK_NUMBER(10, classes);
  CHECK(statistics.latency_max_ms <= statistics.latency_sum_ms && statistics.latency_sum_ms <= 10 * statistics.latency_max_ms);
  CHECK((int64_t)statistics.latency_max_ms <= wall_ms() - before + 1);
  if (wall_ms() - before < 55000) CHECK(statistics.sent_per_minute == 10 && statistics.enqueued_per_minute == 14);
  /* The statistics begin with the open. */
  scene_close(&post.scene);
  post_open(&post);
  set_offline(&post.scene);
  statistics = statistics_of(&post.scene);
  CHECK(statistics.sent == 0 || statistics.sent == 1); /* the queued message may have been sent on launch */
  CHECK(statistics.enqueued == 0 && statistics.enqueued_per_minute == 0 && statistics.failed == 0);
  post_end(&post);
}

TEST(contract_statistics_have_room_for_later_kinds_and_classes) {
  struct scene scene;
  msgq_statistics statistics;
  CHECK_NUMBER(32, sizeof statistics.failures / sizeof statistics.failures[0]);
  CHECK_NUMBER(16, sizeof statistics.latencies / sizeof statistics.latencies[0]);
  CHECK_NUMBER(MSGQ_FAILURE_KINDS, MSGQ_FAILURE_LOCAL + 1);
  scene_begin_open(&scene);
  memset(&statistics, 0xff, sizeof statistics);
  statistics.struct_size = sizeof statistics;
  REQUIRE_OK(msgq_stats(scene.queue, &statistics));
  for (size_t index = MSGQ_FAILURE_KINDS; index < 32; index++) CHECK_NUMBER(0, statistics.failures[index]);
  for (size_t index = MSGQ_LATENCY_CLASSES; index < 16; index++) CHECK_NUMBER(0, statistics.latencies[index]);
  scene_end(&scene);
}

TEST(X9_latencies_are_counted_in_classes) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "slow", "ana", "hello");
  int64_t start = wall_ms();
  pause_ms(150);
  drain(&scene);
  int64_t took = wall_ms() - start;
  msgq_statistics statistics = statistics_of(&scene);
  CHECK(statistics.latency_max_ms >= 150 && (int64_t)statistics.latency_max_ms <= took + 1000);
  CHECK_NUMBER(0, statistics.latencies[0] + statistics.latencies[1] + statistics.latencies[2]);
  if (statistics.latency_max_ms <= 500) CHECK_NUMBER(1, statistics.latencies[3]);
  scene_end(&scene);
}

/* Returns the value of a sample of a queue by its name with its other labels; -1 when there is none. */
static double sample_of(const char *text, const char *path, const char *name) {
  size_t word = strcspn(name, "{");
  char wanted[512];
  snprintf(wanted, sizeof wanted, "%.*s{queue=\"%s\"%s%s ", (int)word, name, path, name[word] == '{' ? "," : "}",
           name[word] == '{' ? name + word + 1 : "");
  for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, wanted, strlen(wanted)) == 0) return strtod(line + strlen(wanted), NULL);
  }
  return -1;
}

/* Checks that every line has the format: help, type, and samples of the metric declared last. */
static void check_lines(const char *text) {
  char metric[128] = "", line[512];
  size_t announced = 0, samples = 0;
  CHECK(text[0] != '\0' && text[strlen(text) - 1] == '\n');
  while (*text != '\0') {
    size_t length = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    text += length + (text[length] == '\n');
    char name[128] = "", rest[256] = "";
    if (sscanf(line, "# HELP %127s %255[^\n]", name, rest) == 2) {
      snprintf(metric, sizeof metric, "%s", name);
      continue;
    }
    if (sscanf(line, "# TYPE %127s %255s", name, rest) == 2) {
      CHECK_TEXT(metric, name);
      CHECK(strcmp(rest, "counter") == 0 || strcmp(rest, "gauge") == 0 || strcmp(rest, "histogram") == 0);
      CHECK((strcmp(rest, "counter") == 0) == (strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0));
      announced++;
      continue;
    }
    size_t word = strcspn(line, "{ ");
    CHECK(strncmp(line, "msgqueue_", 9) == 0 && strncmp(line, metric, strlen(metric)) == 0);
    CHECK(strspn(line, "abcdefghijklmnopqrstuvwxyz_") == word);
    const char *value = strrchr(line, ' ');
    REQUIRE(value != NULL);
    char *end = NULL;
    CHECK(strtod(value + 1, &end) >= 0 && end != value + 1 && *end == '\0');
    samples++;
  }
  CHECK(announced >= 10 && samples >= 30);
}

TEST(X9_statistics_as_prometheus_text) {
  struct post post;
  char *text = NULL;
  begin_busy(&post);
  REQUIRE_OK(msgq_stats_text(post.scene.queue, &text));
  check_lines(text);
  msgq_statistics statistics = statistics_of(&post.scene);
#define sample(text, name) sample_of(text, post.scene.path, name)
  CHECK_NUMBER(10, sample(text, "msgqueue_messages{status=\"sent\"}"));
  CHECK_NUMBER(1, sample(text, "msgqueue_messages{status=\"queued\"}"));
  CHECK_NUMBER(2, sample(text, "msgqueue_messages{status=\"failed\"}"));
  CHECK_NUMBER(1, sample(text, "msgqueue_messages{status=\"received\"}"));
  CHECK_NUMBER(counts_of(&post.scene, NULL).unsent_bytes, sample(text, "msgqueue_unsent_bytes"));
  CHECK_NUMBER(statistics.enqueued, sample(text, "msgqueue_enqueued_total"));
  CHECK_NUMBER(statistics.attempts, sample(text, "msgqueue_attempts_total"));
  CHECK_NUMBER(statistics.sent, sample(text, "msgqueue_sent_total"));
  CHECK_NUMBER(statistics.discarded, sample(text, "msgqueue_discarded_total"));
  CHECK_NUMBER(2, sample(text, "msgqueue_failures_total{kind=\"rate_limit\"}"));
  CHECK_NUMBER(1, sample(text, "msgqueue_failures_total{kind=\"expired\"}"));
  CHECK_NUMBER(10, sample(text, "msgqueue_latency_seconds_count"));
  CHECK_NUMBER(10, sample(text, "msgqueue_latency_seconds_bucket{le=\"+Inf\"}"));
  static const char *const bounds[] = { "0.01", "0.05", "0.1", "0.5", "1.0", "5.0", "30.0", "120.0", "600.0", "3600.0" };
  double sum = 0;
  for (size_t index = 0; index < sizeof bounds / sizeof bounds[0]; index++) { /* cumulative */
    char name[64];
    snprintf(name, sizeof name, "msgqueue_latency_seconds_bucket{le=\"%s\"}", bounds[index]);
    sum += (double)statistics.latencies[index];
    CHECK_NUMBER(sum, sample(text, name));
  }
  CHECK(sample(text, "msgqueue_latency_seconds_sum") * 1000 < (double)statistics.latency_sum_ms + 0.5);
#undef sample
  msgq_text_free(text);
  post_end(&post);
}

TEST(X9_queues_of_one_process_have_separate_samples) {
  struct scene first, second;
  scene_begin_open(&first);
  scene_begin_open(&second);
  put(&first, "a", "ana", "hello");
  msgq_queue *both[] = { first.queue, second.queue };
  char *text = NULL;
  REQUIRE_OK(msgq_stats_text_all(both, 2, &text));
  check_lines(text);
  CHECK_NUMBER(1, sample_of(text, first.path, "msgqueue_messages{status=\"queued\"}"));
  CHECK_NUMBER(0, sample_of(text, second.path, "msgqueue_messages{status=\"queued\"}"));
  CHECK_NUMBER(1, sample_of(text, first.path, "msgqueue_enqueued_total"));
  CHECK_NUMBER(0, sample_of(text, second.path, "msgqueue_enqueued_total"));
  const char *type = strstr(text, "# TYPE msgqueue_messages ");
  REQUIRE(type != NULL);
  CHECK(strstr(type + 1, "# TYPE msgqueue_messages ") == NULL);
  msgq_text_free(text);
  REQUIRE_OK(msgq_stats_text_all(NULL, 0, &text));
  CHECK_TEXT("", text);
  msgq_text_free(text);
  scene_end(&first);
  scene_end(&second);
}

enum { minute = 60000 };

static msgq_verdict reject(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  out->kind = MSGQ_FAILURE_REJECTED;
  return delivery->body_size == 1 ? MSGQ_VERDICT_SENT : MSGQ_VERDICT_REJECT;
}

static void check_minute(const msgq_minute_page *page, size_t index, int64_t start, uint64_t enqueued, uint64_t sent, uint64_t failed) {
  const msgq_minute *found = msgq_minutes_at(page, index);
  REQUIRE(found != NULL);
  CHECK_NUMBER(sizeof *found, found->struct_size);
  CHECK(llabs(found->start_ms - start) < minute);
  CHECK_NUMBER(enqueued, found->enqueued);
  CHECK_NUMBER(sent, found->sent);
  CHECK_NUMBER(failed, found->failed);
  CHECK_NUMBER(failed, found->failed_attempts);
}

TEST_LONG(X9_I9_the_last_hour_is_kept_by_the_minute) {
  const int64_t start = 1700000000000;
  struct scene scene;
  msgq_minute_page *page = NULL;
  int64_t now = 0;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  REQUIRE_OK(msgq_open_simulated(scene.path, &scene.options, start, 7, &scene.queue));
  REQUIRE_OK(msgq_minutes(scene.queue, &page));
  CHECK_NUMBER(0, msgq_minutes_size(page));
  CHECK(msgq_minutes_at(page, 0) == NULL);
  msgq_minutes_free(page);
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene.queue, reject, NULL, NULL));
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ben", "22");
  CHECK_RESULT(MSGQ_OK, msgq_advance(scene.queue, 3 * minute, &now));
  put(&scene, "c", "cem", "1");
  CHECK_RESULT(MSGQ_OK, msgq_advance(scene.queue, 1000, &now));
  REQUIRE_OK(msgq_minutes(scene.queue, &page));
  REQUIRE(msgq_minutes_size(page) == 4);
  check_minute(page, 0, start, 2, 1, 1);
  check_minute(page, 1, start + minute, 0, 0, 0);
  check_minute(page, 3, start + 3 * minute, 1, 1, 0);
  CHECK(msgq_minutes_at(page, 4) == NULL);
  msgq_minutes_free(page);
  /* The first minutes are forgotten, and nothing happened in the last ones. */
  CHECK_RESULT(MSGQ_OK, msgq_advance(scene.queue, 57 * minute, &now));
  REQUIRE_OK(msgq_minutes(scene.queue, &page));
  CHECK_NUMBER(60, msgq_minutes_size(page));
  check_minute(page, 0, start + minute, 0, 0, 0);
  check_minute(page, 2, start + 3 * minute, 1, 1, 0);
  check_minute(page, 59, start + 60 * minute, 0, 0, 0);
  msgq_minutes_free(page);
  CHECK_RESULT(MSGQ_OK, msgq_advance(scene.queue, INT64_C(2) * 1440 * minute, &now));
  REQUIRE_OK(msgq_minutes(scene.queue, &page));
  CHECK_NUMBER(60, msgq_minutes_size(page));
  for (size_t index = 0; index < 60; index++) check_minute(page, index, now - (59 - (int64_t)index) * minute, 0, 0, 0);
  msgq_minutes_free(page);
  CHECK_RESULT(MSGQ_INVALID, msgq_minutes(scene.queue, NULL));
  CHECK_NUMBER(0, msgq_minutes_size(NULL));
  CHECK(msgq_minutes_at(NULL, 0) == NULL);
  msgq_minutes_free(NULL);
  scene_end(&scene);
}

TEST(X9_I9_attempts_are_counted_by_outcome_and_the_oldest_message_is_known) {
  struct scene scene;
  struct stub stub;
  char *text = NULL;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_MANUAL;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  CHECK_NUMBER(0, statistics_of(&scene).oldest_queued_ms);
  const msgq_verdict verdicts[] = { MSGQ_VERDICT_SENT, MSGQ_VERDICT_REJECT, MSGQ_VERDICT_RETRY, MSGQ_VERDICT_OFFLINE };
  for (int number = 0; number < 4; number++) {
    char id[8];
    snprintf(id, sizeof id, "m%d", number);
    stub.verdict = verdicts[number];
    put(&scene, id, id, "1");
    drain(&scene);
  }
  msgq_statistics statistics = statistics_of(&scene);
  CHECK_NUMBER(1, statistics.sent);
  CHECK_NUMBER(1, statistics.rejected);
  CHECK_NUMBER(1, statistics.retryable); /* no retry is left in mode manual */
  CHECK_NUMBER(1, statistics.offline);
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "m3", &message));
  CHECK_NUMBER(message->created_ms, statistics.oldest_queued_ms);
  msgq_message_free(message);
  REQUIRE_OK(msgq_stats_text(scene.queue, &text));
  for (int number = 0; number < 4; number++) {
    static const char *const outcomes[] = { "sent", "rejected", "retry", "offline" };
    char sample[64];
    snprintf(sample, sizeof sample, ",outcome=\"%s\"} 1\n", outcomes[number]);
    CHECK(strstr(text, sample) != NULL);
  }
  CHECK(strstr(text, "msgqueue_oldest_queued_seconds{") != NULL);
  msgq_text_free(text);
  scene_end(&scene);
}

/* The place of a message counts, and a message that replaced another has its place. */
TEST(X9_the_time_of_the_first_message_follows_a_replacement_and_an_attempt) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "first";
  draft.conversation = "ana";
  draft.replace_key = "key";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  put(&scene, "second", "ben", "1");
  pause_ms(20);
  draft.id = "instead";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "instead", &message));
  CHECK_NUMBER(message->created_ms, statistics_of(&scene).oldest_queued_ms);
  msgq_message_free(message);
  REQUIRE_OK(msgq_delete(scene.queue, "instead"));
  REQUIRE_OK(msgq_get(scene.queue, "second", &message));
  REQUIRE_OK(msgq_send_now(scene.queue, "second"));
  AWAIT(atomic_load(&stub.inside) == 1);
  CHECK_NUMBER(message->created_ms, statistics_of(&scene).oldest_queued_ms);
  msgq_message_free(message);
  atomic_store(&stub.held, false);
  scene_end(&scene);
}
