/* The reasons of a page of messages, and those of a store that is only looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "stub.h"

static const int64_t ladder[] = { 3600000, 3600000 };

static msgq_page *page_of(struct scene *scene, const char *conversation, bool with_reasons) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *page = NULL;
  filter.conversation = conversation;
  for (int status = MSGQ_STATUS_QUEUED; status <= MSGQ_STATUS_FAILED; status++) filter.statuses |= MSGQ_STATUS_BIT(status);
  filter.limit = 1000;
  filter.with_reasons = with_reasons;
  REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
  return page;
}

/* Compares the reason of every message of a page with msgq_explain, and returns the reasons as bits. */
static uint64_t compare_reasons(struct scene *scene, const char *conversation) {
  uint64_t found = 0;
  msgq_page *page = page_of(scene, conversation, true);
  for (size_t index = 0; index < msgq_list_size(page); index++) {
    const msgq_message *message = msgq_list_at(page, index);
    msgq_explanation single = explain(scene, message->id);
    REQUIRE(message->explanation != NULL);
    CHECK_NUMBER(sizeof(msgq_explanation), message->explanation->struct_size);
    CHECK_NUMBER(single.reason, message->explanation->reason);
    CHECK_TEXT(single.behind, message->explanation->behind);
    CHECK_TEXT(single.text, message->explanation->text);
    CHECK_NUMBER(single.retries, message->explanation->retries);
    CHECK(llabs(single.until_ms - message->explanation->until_ms) < check_timeout_ms());
    found |= UINT64_C(1) << message->explanation->reason;
  }
  msgq_list_free(page);
  return found;
}

static uint64_t bits(const msgq_reason *reasons, size_t count) {
  uint64_t bits = 0;
  for (size_t index = 0; index < count; index++) bits |= UINT64_C(1) << reasons[index];
  return bits;
}

TEST(I9_a_page_with_reasons_says_of_each_message_what_explain_says) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_MANUAL;
  set_ladder(&scene, ladder, 2);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put(&scene, "done", "ana", "1");
  CHECK_NUMBER(1, drain(&scene).sent);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "bad", "ben", "2");
  CHECK_NUMBER(1, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_RETRY;
  put(&scene, "again", "cem", "3");
  drain(&scene);
  put(&scene, "after-again", "cem", "4");
  put_timed(&scene, "later", "dana", wall_ms() + 86400000, 0);
  put(&scene, "after-later", "dana", "5");
  put(&scene, "paused", "eva", "6");
  put(&scene, "after-paused", "eva", "7");
  put(&scene, "ready", "fay", "8");
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "eva"));
  const msgq_reason expected[] = { MSGQ_REASON_NONE,      MSGQ_REASON_FAILED, MSGQ_REASON_RETRYING, MSGQ_REASON_BEHIND,
                                   MSGQ_REASON_SCHEDULED, MSGQ_REASON_PAUSED, MSGQ_REASON_PERSON };
  uint64_t all = bits(expected, sizeof expected / sizeof expected[0]);
  CHECK_NUMBER(all, compare_reasons(&scene, NULL));
  CHECK_NUMBER(UINT64_C(1) << MSGQ_REASON_PAUSED, compare_reasons(&scene, "eva"));
  CHECK_TEXT("Sending is paused in this conversation.", explain(&scene, "paused").text);
  msgq_explanation again = explain(&scene, "again");
  CHECK_NUMBER(2, again.retries);
  CHECK_TEXT("again", explain(&scene, "after-again").behind);
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, NULL));
  compare_reasons(&scene, NULL);
  CHECK_TEXT("Sending is paused.", explain(&scene, "paused").text);
  set_offline(&scene);
  compare_reasons(&scene, NULL);
  scene_end(&scene);
}

TEST(I9_without_being_asked_for_there_are_no_reasons) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "1");
  msgq_page *page = page_of(&scene, NULL, false);
  CHECK(msgq_list_at(page, 0)->explanation == NULL);
  msgq_list_free(page);
  scene_end(&scene);
}

/* What is behind one of many scheduled messages has no holder; pages of any place agree with msgq_explain. */
TEST_LONG(I9_reasons_behind_many_messages_that_are_passed_over) {
  struct scene scene;
  struct stub stub;
  char id[16];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  for (int number = 0; number < 200; number++) {
    snprintf(id, sizeof id, "s%d", number);
    put_timed(&scene, id, "ana", wall_ms() + 86400000, 0);
    if (number % 50 != 49) continue;
    snprintf(id, sizeof id, "r%d", number);
    put(&scene, id, "ana", "now");
  }
  const msgq_reason expected[] = { MSGQ_REASON_SCHEDULED, MSGQ_REASON_BEHIND, MSGQ_REASON_PERSON };
  CHECK_NUMBER(bits(expected, 3), compare_reasons(&scene, "ana"));
  CHECK_TEXT("r49", explain(&scene, "r199").behind);
  scene_end(&scene);
}

TEST(I9_conversations_say_whether_they_are_paused) {
  struct scene scene;
  scene_begin_open(&scene);
  put_each(&scene, { "a", "ana", "1" }, { "b", "ben", "2" });
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "ana"));
  for (int round = 0; round < 2; round++) {
    msgq_conversation_page *page = NULL;
    REQUIRE_OK(msgq_conversations(scene.queue, 0, 0, &page));
    for (size_t index = 0; index < msgq_conversations_size(page); index++) {
      const msgq_conversation *conversation = msgq_conversations_at(page, index);
      CHECK_NUMBER(round == 0 && strcmp(conversation->name, "ana") == 0, conversation->paused);
    }
    msgq_conversations_free(page);
    REQUIRE_OK(msgq_get_conversation(scene.queue, "ana", &page));
    REQUIRE(msgq_conversations_size(page) == 1);
    CHECK_TEXT("ana", msgq_conversations_at(page, 0)->name);
    CHECK_TEXT("a", msgq_conversations_at(page, 0)->last->id);
    CHECK_NUMBER(1, msgq_conversations_at(page, 0)->counts->queued);
    CHECK_NUMBER(round == 0, msgq_conversations_at(page, 0)->paused);
    msgq_conversations_free(page);
    page = NULL;
    CHECK_RESULT(MSGQ_NOT_FOUND, msgq_get_conversation(scene.queue, "nobody", &page));
    CHECK_RESULT(MSGQ_INVALID, msgq_get_conversation(scene.queue, NULL, &page));
    CHECK(page == NULL);
    /* The pause of the queue is not one of its conversations. */
    CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, NULL));
    CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, "ana"));
  }
  scene_end(&scene);
}

TEST_LONG(I9_X1_a_store_that_is_only_looked_at_explains_what_its_messages_wait_for) {
  for (int read_only = 0; read_only < 2; read_only++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    set_ladder(&scene, ladder, 2);
    stub_begin(&stub, MSGQ_VERDICT_RETRY);
    stub_open(&stub, &scene);
    put(&scene, "again", "cem", "3");
    drain(&scene);
    put_timed(&scene, "later", "dana", wall_ms() + 86400000, 0);
    put(&scene, "ready", "fay", "8");
    put(&scene, "behind", "fay", "9");
    scene_close(&scene);
    scene.options.read_only = read_only != 0;
    scene.options.maintenance = read_only == 0;
    scene_open(&scene);
    CHECK_NUMBER(MSGQ_REASON_RETRYING, reason_of(&scene, "again"));
    CHECK_NUMBER(0, explain(&scene, "again").retries);
    CHECK_NUMBER(MSGQ_REASON_SCHEDULED, reason_of(&scene, "later"));
    CHECK_NUMBER(MSGQ_REASON_NO_TRANSPORT, reason_of(&scene, "ready"));
    CHECK_NUMBER(MSGQ_REASON_BEHIND, reason_of(&scene, "behind"));
    CHECK_TEXT("ready", explain(&scene, "behind").behind);
    CHECK(strstr(explain(&scene, "later").text, explain(&scene, "ready").text) != NULL);
    compare_reasons(&scene, NULL);
    scene_end(&scene);
  }
}
