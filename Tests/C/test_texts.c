/* Texts for users: labels, sentences, the banner, relative times. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

TEST(A8_every_status_has_a_label_and_an_icon) {
  static const char *const labels[] = { "Queued", "Sending\xe2\x80\xa6", "Sent", "Delivered", "Read", "Failed" };
  static const char *const icons[] = { "clock", "arrow-up", "check", "check-double", "eye", "alert" };
  for (int status = MSGQ_STATUS_QUEUED; status <= (int)MSGQ_STATUS_FAILED; status++) {
    CHECK_TEXT(labels[status], msgq_status_label((msgq_status)status));
    CHECK_TEXT(icons[status], msgq_status_icon((msgq_status)status));
    CHECK(msgq_status_label((msgq_status)status) == msgq_status_label((msgq_status)status)); /* borrowed, static lifetime */
  }
}

TEST(R10_every_failure_kind_has_its_own_sentence) {
  CHECK_TEXT("", msgq_failure_text(MSGQ_FAILURE_NONE));
  CHECK_TEXT("No internet connection. Your message is saved and you can retry later.", msgq_failure_text(MSGQ_FAILURE_OFFLINE));
  for (int kind = MSGQ_FAILURE_OFFLINE; kind < MSGQ_FAILURE_KINDS; kind++) {
    const char *sentence = msgq_failure_text((msgq_failure_kind)kind);
    size_t length = strlen(sentence);
    CHECK(length > 20 && sentence[length - 1] == '.' && strpbrk(sentence, "0123456789_{}<>") == NULL);
    for (int other = MSGQ_FAILURE_OFFLINE; other < kind; other++) CHECK(strcmp(sentence, msgq_failure_text((msgq_failure_kind)other)) != 0);
  }
}

TEST(R16_a_message_that_cannot_be_prepared_fails_for_good) {
  struct scene scene;
  struct stub stub;
  struct entry entry;
  msgq_ledger *ledger = NULL;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub.kind = MSGQ_FAILURE_LOCAL;
  put(&scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_LOCAL, failure_of(&scene, "a"));
  CHECK_TEXT("This message could not be prepared for sending.", msgq_failure_text(MSGQ_FAILURE_LOCAL));
  CHECK(journal_last(&scene.journal, MSGQ_EVENT_STATUS, &entry));
  CHECK_NUMBER(MSGQ_FAILURE_LOCAL, entry.failure);
  REQUIRE_OK(msgq_attempts(scene.queue, "a", &ledger));
  CHECK_NUMBER(1, msgq_attempts_size(ledger));
  REQUIRE(msgq_attempts_at(ledger, 0) != NULL);
  CHECK_NUMBER(MSGQ_ARRIVAL_NO, msgq_attempts_at(ledger, 0)->arrival);
  CHECK_NUMBER(MSGQ_ATTEMPT_REJECTED, msgq_attempts_at(ledger, 0)->outcome);
  msgq_attempts_free(ledger);
  scene_close(&scene);
  scene_open(&scene); /* the kind is in the store */
  CHECK_NUMBER(MSGQ_FAILURE_LOCAL, failure_of(&scene, "a"));
  scene_end(&scene);
}

TEST(R10_no_raw_error_text_appears_in_a_sentence) {
  static const int64_t ladder[] = { 3600000 };
  static const char raw[] = "ECONNRESET at 0xdeadbeef";
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_NETWORK;
  stub.code = 4711; /* the text of the stub contains it, too */
  put(&scene, "retrying", "ana", raw);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  drain(&scene);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "failed", "ben", raw);
  drain(&scene);
  static const char *const ids[] = { "retrying", "failed" };
  for (size_t index = 0; index < 2; index++) {
    msgq_message *message = NULL;
    REQUIRE_OK(msgq_get(scene.queue, ids[index], &message));
    REQUIRE(message->failure != NULL);
    CHECK_TEXT("stub says 4711", message->failure->text); /* kept for developers */
    CHECK(strstr(msgq_failure_text(message->failure->kind), "4711") == NULL);
    msgq_message_free(message);
    msgq_explanation explanation = explain(&scene, ids[index]);
    CHECK(strstr(explanation.text, "4711") == NULL && strstr(explanation.text, "stub") == NULL);
  }
  CHECK(banner_is(&scene, "1 message queued. 1 message failed."));
  scene_end(&scene);
}

TEST(H6_relative_times) {
  static const int64_t now = 1710000000000, minute = 60000, hour = 3600000, day = 86400000; /* 2024-03-09, 16:00 UTC */
  static const struct {
    int64_t age;
    const char *expected;
  } cases[] = {
    { 0, "Just now" },
    { 59999, "Just now" },
    { 60000, "1m ago" },
    { 5 * 60000 + 30000, "5m ago" },
    { 60 * 60000 - 1, "59m ago" },
    { 3600000, "1h ago" },
    { 2 * 3600000, "2h ago" },
    { 86400000 - 1, "23h ago" },
    { 86400000, "1d ago" },
    { 3 * INT64_C(86400000), "3d ago" },
    { 40 * INT64_C(86400000), "2024-01-29" },
    { 366 * INT64_C(86400000), "2023-03-09" },
    { INT64_C(1710000000000), "1970-01-01" },
    { INT64_C(1710000000001), "1969-12-31" },
    /* The clock was set back. */
    { -1, "Just now" },
    { -5000, "Just now" },
    { -400 * INT64_C(86400000), "Just now" },
  };
  char text[16];
  for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
    CHECK_RESULT(MSGQ_OK, msgq_relative_time(now - cases[index].age, now, text, sizeof text));
    CHECK_TEXT(cases[index].expected, text);
  }
  /* The leap day and its ends. */
  CHECK_RESULT(MSGQ_OK, msgq_relative_time(now - 9 * day - 16 * hour, now + 300 * day, text, sizeof text));
  CHECK_TEXT("2024-02-29", text);
  CHECK_RESULT(MSGQ_OK, msgq_relative_time(now - 9 * day - 16 * hour - minute, now + 300 * day, text, sizeof text));
  CHECK_TEXT("2024-02-28", text);
}

TEST(H6_every_relative_time_fits_sixteen_bytes) {
  static const int64_t times[] = { INT64_MIN, INT64_MIN + 1, -62135596800001, -1, 0, 1, 253402300799999, 253402300800000, INT64_MAX - 1, INT64_MAX };
  enum { count = sizeof times / sizeof times[0] };
  for (size_t then = 0; then < count; then++) {
    for (size_t now = 0; now < count; now++) {
      char text[16] = "";
      CHECK_RESULT(MSGQ_OK, msgq_relative_time(times[then], times[now], text, sizeof text));
      CHECK(text[0] != '\0');
      if (times[then] >= times[now]) CHECK_TEXT("Just now", text);
    }
  }
}

TEST(Q2_the_banner_counts_in_singular_and_plural) {
  struct post post;
  char id[16];
  post_begin_open(&post);
  CHECK(banner_is(&post.scene, ""));
  set_offline(&post.scene);
  put(&post.scene, "m1", "ana", "hello");
  CHECK(banner_is(&post.scene, "You're offline. 1 message queued."));
  for (int number = 2; number <= 5; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  CHECK(banner_is(&post.scene, "You're offline. 5 messages queued."));
  set_online(&post.scene);
  CHECK(banner_is(&post.scene, "5 messages queued."));
  receiver_answer(post.receiver, "m5", 400, 1, NULL);
  CHECK_NUMBER(4, drain(&post.scene).sent);
  CHECK(banner_is(&post.scene, "1 message failed."));
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m5"));
  CHECK(banner_is(&post.scene, ""));
  post_end(&post);
}

TEST(H7_the_offline_sentence_appears_and_disappears) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post_open(&post);
  set_offline(&post.scene);
  CHECK(banner_is(&post.scene, "You're offline. Messages will send when connected."));
  int64_t start = steady_ms();
  set_online(&post.scene);
  CHECK(banner_is(&post.scene, ""));
  CHECK(steady_ms() - start < 2000 * (check_timeout_ms() / 10000));
  /* Events report the change, so that a user interface need not poll. */
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_CONNECTIVITY) == 2);
  struct entry entry;
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.connectivity == MSGQ_CONNECTIVITY_ONLINE);
  post_end(&post);
}

TEST(A7_counts_by_conversation_and_the_banner_while_draining) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post_open(&post);
  set_offline(&post.scene);
  put(&post.scene, "m1", "ana", "12");
  put(&post.scene, "m2", "ben", "345");
  put(&post.scene, "m3", "ana", "6");
  CHECK(counts_of(&post.scene, "ana").queued == 2 && counts_of(&post.scene, "ben").queued == 1 && counts_of(&post.scene, NULL).queued == 3);
  CHECK_NUMBER(3, counts_of(&post.scene, "ana").unsent_bytes);
  CHECK(banner_is(&post.scene, "You're offline. 3 messages queued. They will be sent when connected."));
  receiver_hold(post.receiver, true);
  set_online(&post.scene);
  AWAIT(receiver_requests(post.receiver, "m1") == 1);
  CHECK(banner_is(&post.scene, "Sending 3 messages\xe2\x80\xa6"));
  msgq_counts counts = counts_of(&post.scene, "ana");
  CHECK(counts.sending == 1 && counts.queued == 1);
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).sending);
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).sent == 3);
  CHECK(counts_of(&post.scene, "ana").sent == 2 && counts_of(&post.scene, "ben").sent == 1);
  CHECK(banner_is(&post.scene, ""));
  post_end(&post);
}

TEST(A7_a_drain_reports_its_progress) {
  struct post post;
  post_begin_open(&post);
  receiver_answer(post.receiver, "m3", 400, 1, NULL);
  for (int number = 1; number <= 5; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  drain(&post.scene);
  CHECK_NUMBER(5, journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_PROGRESS));
  uint64_t done = 0;
  for (size_t index = 0; index < post.scene.journal.count; index++) { /* no events follow after the drain */
    const struct entry *entry = &post.scene.journal.entries[index];
    if (entry->kind != MSGQ_EVENT_DRAIN_PROGRESS) continue;
    done++;
    CHECK_NUMBER(done, entry->report.sent + entry->report.failed);
    CHECK_NUMBER(5 - done, entry->report.remaining);
  }
  struct entry last;
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED, &last));
  CHECK(last.report.sent == 4 && last.report.failed == 1 && last.report.remaining == 0 && last.report.stop == MSGQ_STOP_EMPTY);
  post_end(&post);
}

TEST(Q2_every_change_of_the_summary_is_an_event) {
  struct post post;
  struct entry entry;
  post_begin_open(&post);
  receiver_answer(post.receiver, "bad", 400, 1, NULL);
  put(&post.scene, "good", "ana", "12345");
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.queued == 1 && entry.counts.unsent_bytes == 5);
  put(&post.scene, "bad", "ben", "1");
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.queued == 2);
  drain(&post.scene);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.sent == 1 && entry.counts.failed == 1);
  CHECK(entry.counts.queued == 0 && entry.counts.sending == 0);
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "good", MSGQ_STATUS_READ));
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.read == 1);
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "bad"));
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.failed == 0);
  set_offline(&post.scene);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.connectivity == MSGQ_CONNECTIVITY_OFFLINE);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_record(post.scene.queue, &draft, "ben", NULL));
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.received == 1 && entry.counts.unread == 1);
  post_end(&post);
}
