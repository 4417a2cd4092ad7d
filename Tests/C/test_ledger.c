/* The ledger of attempts, and the room that it takes in the files. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "scene.h"

/* A transport that fails with long texts, all different. */
struct refuser {
  size_t text;         /* bytes of each text */
  atomic_int sends;    /* while it is not 0, messages are sent, and it is decreased */
  atomic_int attempts;
  atomic_int end; /* as soon as there were so many attempts, messages are skipped */
};

static void explain_attempt(char *text, size_t size, const char *id, uint32_t attempt) {
  char start[96];
  snprintf(start, sizeof start, "attempt %u of %s: ", attempt, id);
  for (size_t index = 0, length = strlen(start); index < size; index++) text[index] = start[index % length];
  text[size] = '\0';
}

static msgq_verdict refuse(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct refuser *refuser = context;
  if (atomic_load(&refuser->attempts) >= atomic_load(&refuser->end)) return MSGQ_VERDICT_SKIPPED;
  atomic_fetch_add(&refuser->attempts, 1);
  if (atomic_load(&refuser->sends) > 0) {
    atomic_fetch_sub(&refuser->sends, 1);
    return MSGQ_VERDICT_SENT;
  }
  explain_attempt(out->text, refuser->text, delivery->id, delivery->attempt);
  out->kind = MSGQ_FAILURE_SERVER;
  return MSGQ_VERDICT_RETRY;
}

/* Opens a queue in which every attempt is retried at once. */
static void begin_refusing(struct scene *scene, struct refuser *refuser, uint32_t retries, int64_t limit) {
  scene_begin(scene);
  scene->options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene->options.backoff_base_ms = 1;
  scene->options.backoff_factor = 1;
  scene->options.max_retries = retries;
  scene->options.limit_file_bytes = limit;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, refuse, refuser, NULL));
}

/* Drains until so many attempts were made, or nothing is left to try. (A drain does not end while retries are due.) */
static void make_attempts(struct scene *scene, struct refuser *refuser, int count) {
  int end = atomic_load(&refuser->attempts) + count;
  atomic_store(&refuser->end, end);
  while (atomic_load(&refuser->attempts) < end && counts_of(scene, NULL).queued > 0) {
    msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
    options.batch = (uint32_t)(end - atomic_load(&refuser->attempts));
    REQUIRE_OK(msgq_drain(scene->queue, &options, NULL));
  }
}

/* Checks the size of the files by the header. Returns how much of the room beyond the limit is in use. */
static double check_files(struct scene *scene, int64_t limit, const char *comment) {
  char log[128];
  snprintf(log, sizeof log, "%s-wal", scene->path);
  msgq_counts counts = counts_of(scene, NULL);
  int64_t size = file_size(scene->path) + (file_exists(log) ? file_size(log) : 0);
  int64_t room = (1 << 20) + 1024 * (int64_t)(counts.queued + counts.sending + counts.failed);
  if (!CHECK(size <= limit + room)) fprintf(stderr, "  %s: %lld of %lld bytes\n", comment, (long long)size, (long long)(limit + room));
  return (double)(size - limit) / (double)room;
}

TEST_LONG(F6_X2_attempts_with_long_texts_do_not_exceed_the_limit_of_the_files) {
  enum { limit = 1 << 20 };
  struct scene scene;
  struct refuser refuser = { .text = 511 };
  const int times = check_times(4, 2);
  begin_refusing(&scene, &refuser, (uint32_t)times - 1, limit);
  int count = 0;
  while (put_body_of(&scene, NULL, 10) == MSGQ_OK) count++;
  CHECK(count > 500);
  make_attempts(&scene, &refuser, times * count);
  CHECK_NUMBER(times * count, atomic_load(&refuser.attempts));
  CHECK_NUMBER(count, (int64_t)counts_of(&scene, NULL).failed);
  char comment[64];
  snprintf(comment, sizeof comment, "%d messages", count);
  check_files(&scene, limit, comment);
  scene_end(&scene);
}

/* Checks that the ledger of a message has the last attempt, with its text or the start of it. Returns the number of its entries. */
static size_t check_ledger(struct scene *scene, const char *id, size_t text, const uint32_t *expected, size_t count) {
  msgq_ledger *ledger = NULL;
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_attempts(scene->queue, id, &ledger));
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  size_t size = msgq_attempts_size(ledger);
  if (expected != NULL) REQUIRE(size == count);
  for (size_t index = 0; index < size; index++) {
    const msgq_attempt *attempt = msgq_attempts_at(ledger, index);
    if (expected != NULL) CHECK_NUMBER(expected[index], attempt->number);
    char whole[512];
    explain_attempt(whole, text, id, attempt->number);
    CHECK(strncmp(attempt->text, whole, strlen(attempt->text)) == 0);
    size_t length = attempt->outcome == MSGQ_ATTEMPT_SENT ? 0 : text;
    CHECK(strlen(attempt->text) == length || (expected == NULL && strlen(attempt->text) == (length < 63 ? length : 63)));
    if (index + 1 == size) CHECK_NUMBER(message->attempts, attempt->number);
  }
  CHECK(size > 0 || message->attempts == 0);
  msgq_attempts_free(ledger);
  msgq_message_free(message);
  return size;
}

TEST_LONG(X2_the_first_4_and_the_last_60_attempts_are_kept) {
  struct scene scene;
  struct refuser refuser = { .text = 511 };
  uint32_t expected[64];
  begin_refusing(&scene, &refuser, 1000, 0);
  put(&scene, "m", "ana", "hello");
  make_attempts(&scene, &refuser, 64);
  for (uint32_t index = 0; index < 64; index++) expected[index] = index + 1;
  check_ledger(&scene, "m", refuser.text, expected, 64);
  make_attempts(&scene, &refuser, 300 - 64);
  for (uint32_t index = 4; index < 64; index++) expected[index] = 241 + index - 4;
  check_ledger(&scene, "m", refuser.text, expected, 64);
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "m", &message));
  CHECK(message->attempts == 300 && message->retries_used == 300);
  CHECK(message->failure != NULL && message->failure->attempts == 300 && strncmp(message->failure->text, "attempt 300 of m", 16) == 0);
  msgq_message_free(message);
  /* A success is one more. */
  atomic_store(&refuser.sends, 1);
  make_attempts(&scene, &refuser, 1);
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene.queue, "m", &ledger));
  CHECK_NUMBER(65, (int64_t)msgq_attempts_size(ledger));
  CHECK_NUMBER(301, msgq_attempts_at(ledger, 64)->number);
  CHECK_NUMBER(MSGQ_ATTEMPT_SENT, msgq_attempts_at(ledger, 64)->outcome);
  /* Their earlier names. */
  CHECK_NUMBER(65, (int64_t)msgq_ledger_size(ledger));
  CHECK(msgq_ledger_at(ledger, 64) == msgq_attempts_at(ledger, 64) && msgq_ledger_at(ledger, 65) == NULL);
  msgq_ledger_free(ledger);
  scene_end(&scene);
}

static uint64_t state;

static int any(int least, int most) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return least + (int)((state >> 33) % (uint64_t)(most - least + 1));
}

TEST_LONG(F6_X2_the_files_keep_their_limit_whatever_is_attempted) {
  static const int64_t limits[] = { 700 << 10, 1 << 20, 2 << 20, 3 << 20 };
  const char *given = getenv("MSGQ_SEED");
  const unsigned long long seed = given != NULL ? strtoull(given, NULL, 10) : (unsigned long long)wall_ms();
  state = seed;
  for (int time = 0; time < (getenv("MSGQ_SOAK") != NULL ? 100 : check_times(3, 1)); time++) {
    struct scene scene;
    struct refuser refuser = { .text = (size_t)(any(0, 2) > 0 ? any(200, 511) : any(0, 100)) };
    int64_t limit = limits[any(0, 3)];
    int body = any(0, 3) > 0 ? any(0, 300) : any(300, 4000), retries = any(0, 2) > 0 ? any(0, 8) : any(20, 200);
    bool drops = any(0, 3) == 0;
    char comment[160];
    begin_refusing(&scene, &refuser, (uint32_t)retries, limit);
    scene_close(&scene);
    scene.options.on_full = drops ? MSGQ_ON_FULL_DROP_OLDEST : MSGQ_ON_FULL_REFUSE;
    scene.options.max_in_flight = any(0, 1) ? 1 : 8;
    scene_open(&scene);
    REQUIRE_OK(msgq_set_transport(scene.queue, refuse, &refuser, NULL));
    double most = 0;
    int left = getenv("MSGQ_SOAK") != NULL ? 6000 : check_times(3000, 1000); /* attempts */
    for (int round = 0; round < 12 && left > 0; round++) {
      int count = any(1, any(0, 1) ? 50 : 3000);
      for (int number = 0; number < count; number += 50) {
        static char bytes[4096], names[10][4];
        msgq_draft drafts[50];
        size_t some = (size_t)(count - number < 50 ? count - number : 50);
        for (size_t index = 0; index < some; index++) {
          int conversation = any(0, 9);
          snprintf(names[conversation], sizeof names[0], "c%d", conversation);
          drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
          drafts[index].conversation = names[conversation];
          drafts[index].body = bytes;
          drafts[index].body_size = (size_t)body;
        }
        if (msgq_enqueue_batch(scene.queue, drafts, some, NULL) != MSGQ_OK) break;
      }
      if (any(0, 2) == 0) atomic_store(&refuser.sends, any(1, 2000));
      int attempts = any(1, 2000);
      make_attempts(&scene, &refuser, attempts);
      left -= attempts;
      snprintf(comment, sizeof comment, "seed %llu, time %d, round %d: limit %lld, text %zu, body %d, retries %d", seed, time, round,
               (long long)limit, refuser.text, body, retries);
      double used = check_files(&scene, limit, comment);
      if (used > most) most = used;
      if (any(0, 3) == 0) {
        uint64_t queued = 0;
        REQUIRE_OK(msgq_retry_all(scene.queue, NULL, &queued));
      }
      if (any(0, 5) == 0) {
        scene_close(&scene);
        scene_open(&scene);
        REQUIRE_OK(msgq_set_transport(scene.queue, refuse, &refuser, NULL));
      }
    }
    /* What the last retry_all put back must not be attempted while it is compared. */
    REQUIRE_OK(msgq_pause(scene.queue, NULL));
    AWAIT(counts_of(&scene, NULL).sending == 0);
    msgq_filter filter = MSGQ_FILTER_INIT;
    msgq_page *page = NULL;
    REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
    for (size_t index = 0; index < msgq_list_size(page); index++) check_ledger(&scene, msgq_list_at(page, index)->id, refuser.text, NULL, 0);
    msgq_list_free(page);
    if (check_failures() > 0) fprintf(stderr, "  %s\n", comment);
    if (getenv("MSGQ_SHOW") != NULL) fprintf(stderr, "  %s: %.2f of the room beyond the limit\n", comment, most);
    scene_end(&scene);
  }
}

static msgq_verdict die(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery, (void)out;
  kill(getpid(), SIGKILL);
  return MSGQ_VERDICT_SENT;
}

/* Makes an attempt in a process that ends during it. */
static void interrupt_attempt(const struct scene *scene) {
  pid_t child = fork();
  if (child == 0) {
    msgq_queue *queue = NULL;
    if (msgq_open(scene->path, &scene->options, &queue) == MSGQ_OK && msgq_set_transport(queue, die, NULL, NULL) == MSGQ_OK) {
      msgq_drain(queue, NULL, NULL);
    }
    _exit(1);
  }
  int status = 0;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Checks the numbers of the attempts in the ledger of "m", and that the last one has the first 63 bytes of its text. */
static void check_short_ledger(struct scene *scene, const uint32_t *expected, size_t count) {
  msgq_ledger *ledger = NULL;
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_attempts(scene->queue, "m", &ledger));
  REQUIRE_OK(msgq_get(scene->queue, "m", &message));
  CHECK_NUMBER(count, msgq_attempts_size(ledger));
  for (size_t index = 0; index < count && index < msgq_attempts_size(ledger); index++) {
    CHECK_NUMBER(expected[index], msgq_attempts_at(ledger, index)->number);
  }
  const msgq_attempt *last = msgq_attempts_at(ledger, msgq_attempts_size(ledger) - 1);
  CHECK_NUMBER(message->attempts, last->number);
  if (last->outcome == MSGQ_ATTEMPT_RETRY) CHECK_NUMBER(63, strlen(last->text));
  msgq_attempts_free(ledger);
  msgq_message_free(message);
}

/* Attempts while offline do not remove why "m" failed before. */
static void check_failure_before(struct scene *scene, struct refuser *refuser) {
  msgq_message *message = NULL;
  set_offline(scene);
  for (int time = 0; time < 3; time++) {
    REQUIRE_OK(msgq_send_now(scene->queue, "m"));
    AWAIT(failure_of(scene, "m") == MSGQ_FAILURE_OFFLINE);
  }
  scene_close(scene);
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, refuse, refuser, NULL));
  REQUIRE_OK(msgq_get(scene->queue, "m", &message));
  CHECK_NUMBER(MSGQ_FAILURE_OFFLINE, message->failure->kind);
  if (CHECK(message->failure_before != NULL)) {
    CHECK(message->failure_before->kind != MSGQ_FAILURE_OFFLINE && message->failure_before->attempts == 212);
    CHECK_NUMBER(63, strlen(message->failure_before->text));
  }
  msgq_message_free(message);
  set_online(scene);
  make_attempts(scene, refuser, 1);
  check_short_ledger(scene, (const uint32_t[]) { 10, 213 }, 2);
}

/* The files of a queue that is opened with a smaller limit are more than 768 KiB over it. */
TEST_ALONE(F6_R17_X2_far_beyond_the_limit_of_the_files_a_failed_attempt_replaces_the_earlier_ones) {
  enum { others = 2000, body_size = 1500 };
  static char body[body_size];
  struct scene scene;
  struct refuser refuser = { .text = 511 };
  begin_refusing(&scene, &refuser, 1000, 0);
  put(&scene, "m", "ana", "hello");
  for (int number = 0; number < others; number += 50) {
    msgq_draft drafts[50];
    for (size_t index = 0; index < 50; index++) {
      drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
      drafts[index].conversation = "later";
      drafts[index].body = body;
      drafts[index].body_size = body_size;
      drafts[index].not_before_ms = wall_ms() + 3600000;
    }
    REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, 50, NULL));
  }
  make_attempts(&scene, &refuser, 6);
  check_ledger(&scene, "m", refuser.text, (const uint32_t[]) { 1, 2, 3, 4, 5, 6 }, 6);
  scene_close(&scene);
  scene.options.limit_file_bytes = 1 << 20;
  CHECK(file_size(scene.path) > scene.options.limit_file_bytes + (768 << 10));
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, refuse, &refuser, NULL));
  CHECK_RESULT(MSGQ_FULL, put_body_of(&scene, "full", 10));
  int64_t before = file_size(scene.path);
  make_attempts(&scene, &refuser, 3);
  check_short_ledger(&scene, (const uint32_t[]) { 9 }, 1);
  scene_close(&scene);
  interrupt_attempt(&scene);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, refuse, &refuser, NULL));
  make_attempts(&scene, &refuser, 2);
  check_short_ledger(&scene, (const uint32_t[]) { 10, 12 }, 2);
  make_attempts(&scene, &refuser, 200);
  check_short_ledger(&scene, (const uint32_t[]) { 10, 212 }, 2);
  CHECK_NUMBER(212, attempts_of(&scene, "m"));
  CHECK(file_size(scene.path) <= before + (64 << 10));
  check_failure_before(&scene, &refuser);
  atomic_store(&refuser.sends, 1);
  make_attempts(&scene, &refuser, 1);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "m"));
  check_short_ledger(&scene, (const uint32_t[]) { 214 }, 1);
  scene_end(&scene);
}
