/* H9: history without a limit, unread messages, times of receipts, and the number of used retries. */
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

struct times {
  int64_t sent, delivered, read;
};

static struct times times_in(msgq_queue *queue, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(queue, id, &message));
  struct times times = { message->sent_ms, message->delivered_ms, message->read_ms };
  msgq_message_free(message);
  return times;
}

static struct times times_of(struct scene *scene, const char *id) { return times_in(scene->queue, id); }

static bool same_times(struct times one, struct times other) {
  return one.sent == other.sent && one.delivered == other.delivered && one.read == other.read;
}

static void mark(struct scene *scene, const char *id, msgq_status receipt) {
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene->queue, id, receipt));
}

static void record(struct scene *scene, const char *id) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ana";
  REQUIRE_OK(msgq_record(scene->queue, &draft, "Ana", NULL));
}

static bool all_are(struct scene *scene, const char *expected) {
  char text[256];
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  ids_of(scene, &filter, text, sizeof text);
  return strcmp(expected, text) == 0;
}

/* Waits until the clock shows another millisecond. */
static void next_millisecond(void) {
  int64_t now = wall_ms();
  while (wall_ms() <= now) pause_ms(1);
}

static void open_sending(struct scene *scene, struct stub *stub) {
  stub_begin(stub, MSGQ_VERDICT_SENT);
  stub_open(stub, scene);
}

/* Enqueues `count` messages in batches and sends them. */
static void send_many(struct scene *scene, int count) {
  enum { batch = 1000 };
  static msgq_draft drafts[batch];
  for (int done = 0; done < count; done += batch) {
    int size = count - done < batch ? count - done : batch;
    for (int index = 0; index < size; index++) drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, (size_t)size, NULL));
  }
  CHECK_NUMBER(count, drain(scene).sent);
}

TEST_LONG(H9_history_can_be_kept_without_limit) {
  struct scene scene;
  struct stub stub;
  msgq_options defaults = MSGQ_OPTIONS_INIT;
  const int most = check_times((int)defaults.keep_sent, 50), count = most + 150;
  scene_begin(&scene);
  scene.options.keep_sent = UINT64_MAX;
  scene.options.keep_sent_ms = -1;
  open_sending(&scene, &stub);
  send_many(&scene, count);
  scene_close(&scene);
  open_sending(&scene, &stub); /* an open may prune the history, too */
  pause_ms(50);
  CHECK_NUMBER(count, counts_of(&scene, NULL).sent);
  scene_close(&scene);
  scene.options.keep_sent = (uint64_t)most; /* with a limit the history is pruned */
  open_sending(&scene, &stub);
  AWAIT(counts_of(&scene, NULL).sent == (uint64_t)most);
  scene_end(&scene);
}

TEST(H9_unread_received_messages_are_never_pruned) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  scene.options.keep_sent_ms = 0;
  open_sending(&scene, &stub);
  record(&scene, "r1");
  record(&scene, "r2");
  record(&scene, "r3");
  put(&scene, "mine", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  AWAIT(all_are(&scene, "r1 r2 r3"));
  scene_close(&scene);
  open_sending(&scene, &stub);
  put(&scene, "mine-2", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  AWAIT(all_are(&scene, "r1 r2 r3")); /* the history was pruned again */
  mark(&scene, "r2", MSGQ_STATUS_READ);
  AWAIT(all_are(&scene, "r1 r3"));
  CHECK_NUMBER(2, counts_of(&scene, NULL).unread);
  record(&scene, "r2"); /* the id is remembered: the message is not stored again */
  CHECK(all_are(&scene, "r1 r3"));
  scene_end(&scene);
}

TEST(H9_unread_messages_do_not_count_against_keep_sent) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 2;
  open_sending(&scene, &stub);
  record(&scene, "r1");
  record(&scene, "r2");
  record(&scene, "r3");
  put(&scene, "m1", "ana", "1");
  put(&scene, "m2", "ana", "2");
  put(&scene, "m3", "ana", "3");
  CHECK_NUMBER(3, drain(&scene).sent);
  AWAIT(all_are(&scene, "r1 r2 r3 m2 m3"));
  mark(&scene, "r2", MSGQ_STATUS_READ); /* now it counts, and it is the oldest */
  AWAIT(all_are(&scene, "r1 r3 m2 m3"));
  scene_end(&scene);
}

TEST(H9_times_of_receipts_are_kept) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  open_sending(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  /* An early receipt is refused, and its time is not stored. */
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(scene.queue, "a", MSGQ_STATUS_DELIVERED));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  drain(&scene);
  struct times sent = times_of(&scene, "a");
  CHECK(sent.sent > 0 && sent.delivered == 0 && sent.read == 0);
  next_millisecond();
  int64_t before = wall_ms();
  mark(&scene, "a", MSGQ_STATUS_DELIVERED);
  struct times delivered = times_of(&scene, "a");
  CHECK(delivered.sent == sent.sent && delivered.delivered >= before && delivered.delivered <= wall_ms() && delivered.read == 0);
  next_millisecond();
  mark(&scene, "a", MSGQ_STATUS_DELIVERED); /* again */
  CHECK(same_times(delivered, times_of(&scene, "a")));
  before = wall_ms();
  mark(&scene, "a", MSGQ_STATUS_READ);
  struct times read = times_of(&scene, "a");
  CHECK(read.sent == sent.sent && read.delivered == delivered.delivered && read.read >= before && read.read <= wall_ms());
  next_millisecond();
  mark(&scene, "a", MSGQ_STATUS_READ); /* again */
  mark(&scene, "a", MSGQ_STATUS_DELIVERED); /* late */
  CHECK(same_times(read, times_of(&scene, "a")));
  CHECK_NUMBER(MSGQ_STATUS_READ, status_of(&scene, "a"));
  /* msgq_list returns the same times. */
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK(msgq_list_at(page, 0)->delivered_ms == read.delivered && msgq_list_at(page, 0)->read_ms == read.read);
  msgq_list_free(page);
  scene_end(&scene);
}

TEST(H9_read_without_delivered_has_only_a_read_time) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  open_sending(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  drain(&scene);
  mark(&scene, "a", MSGQ_STATUS_READ);
  struct times read = times_of(&scene, "a");
  CHECK(read.delivered == 0 && read.read >= read.sent);
  next_millisecond();
  mark(&scene, "a", MSGQ_STATUS_DELIVERED); /* late: the time of delivery is unknown */
  CHECK(same_times(read, times_of(&scene, "a")));
  /* A recorded message has the time of recording as delivered_ms, and the time of reading. */
  int64_t before = wall_ms();
  record(&scene, "hers");
  struct times recorded = times_of(&scene, "hers");
  CHECK(recorded.sent == 0 && recorded.delivered >= before && recorded.read == 0);
  next_millisecond();
  mark(&scene, "hers", MSGQ_STATUS_DELIVERED);
  CHECK(same_times(recorded, times_of(&scene, "hers")));
  mark(&scene, "hers", MSGQ_STATUS_READ);
  CHECK(times_of(&scene, "hers").read > recorded.delivered && times_of(&scene, "hers").delivered == recorded.delivered);
  scene_end(&scene);
}

/* Opens a copy of the store and compares the times. */
static void check_copy(const char *path, struct times expected) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  msgq_queue *queue = NULL;
  options.read_only = true;
  REQUIRE_OK(msgq_open(path, &options, &queue));
  CHECK(same_times(expected, times_in(queue, "a")));
  CHECK_RESULT(MSGQ_OK, msgq_close(queue, -1));
}

TEST_LONG(H9_receipt_times_survive_restart_backup_and_salvage) {
  struct scene scene;
  struct stub stub;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin(&scene);
  open_sending(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  drain(&scene);
  mark(&scene, "a", MSGQ_STATUS_DELIVERED);
  next_millisecond();
  mark(&scene, "a", MSGQ_STATUS_READ);
  struct times times = times_of(&scene, "a");
  CHECK(times.delivered > 0 && times.read > times.delivered);
  CHECK_RESULT(MSGQ_OK, msgq_backup(scene.queue, scene_file(&scene, "backup.db")));
  check_copy(scene_file(&scene, "backup.db"), times);
  scene_close(&scene);
  scene_open(&scene);
  CHECK(same_times(times, times_of(&scene, "a")));
  scene_close(&scene);
  CHECK_NUMBER(times.delivered, sql_number(scene.path, "SELECT delivered_at FROM message"));
  CHECK_NUMBER(times.read, sql_number(scene.path, "SELECT read_at FROM message"));
  CHECK_RESULT(MSGQ_OK, msgq_salvage(scene.path, scene_file(&scene, "salvaged.db"), &report));
  CHECK(report.sound);
  check_copy(scene_file(&scene, "salvaged.db"), times);
  scene_end(&scene);
}

static uint32_t retries_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  uint32_t retries = message->retries_used;
  msgq_message_free(message);
  return retries;
}

TEST(H9_M11_retries_used_counts_the_retries_against_max_retries) {
  static const int64_t ladder[] = { 600000, 600000 };
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 2);
  open_sending(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(0, retries_of(&scene, "a"));
  stub.verdict = MSGQ_VERDICT_OFFLINE; /* the message never left: this uses up no retry */
  drain(&scene);
  CHECK_NUMBER(0, retries_of(&scene, "a"));
  stub.verdict = MSGQ_VERDICT_RETRY;
  drain(&scene);
  CHECK(retries_of(&scene, "a") == 1 && attempts_of(&scene, "a") == 1);
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  AWAIT(attempts_of(&scene, "a") == 2 && status_of(&scene, "a") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(2, retries_of(&scene, "a"));
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK(retries_of(&scene, "a") == 2 && attempts_of(&scene, "a") == 3);
  scene_close(&scene);
  open_sending(&scene, &stub);
  CHECK_NUMBER(2, retries_of(&scene, "a"));
  stub.verdict = MSGQ_VERDICT_RETRY;
  REQUIRE_OK(msgq_retry(scene.queue, "a")); /* a manual retry resets the count */
  AWAIT(attempts_of(&scene, "a") == 4 && status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(0, retries_of(&scene, "a"));
  scene_end(&scene);
}
