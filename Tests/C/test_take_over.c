/* Messages that another durable place hands over: msgq_take_over and what belongs to it. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

enum { room = 8 };

/* The drafts of one call, in the conversation "ana" unless a test changes that. */
struct offer {
  size_t count;
  msgq_draft drafts[room];
  msgq_result results[room];
};

static msgq_draft *add(struct offer *offer, const char *id) {
  msgq_draft *draft = &offer->drafts[offer->count];
  *draft = (msgq_draft)MSGQ_DRAFT_INIT;
  draft->id = id;
  draft->conversation = "ana";
  draft->body = id;
  draft->body_size = strlen(id);
  offer->results[offer->count++] = MSGQ_INTERNAL;
  return draft;
}

static msgq_hand_over *look(struct scene *scene, const char *source) {
  msgq_hand_over *list = NULL;
  REQUIRE_OK(msgq_handed_over(scene->queue, source, &list));
  return list;
}

static msgq_result take(struct scene *scene, const char *source, struct offer *offer) {
  msgq_hand_over *list = look(scene, source);
  msgq_result result = msgq_take_over(scene->queue, list, offer->drafts, offer->count, offer->results);
  msgq_handed_over_free(list);
  return result;
}

/* Takes over one draft and returns what became of it. */
static msgq_result take_one(struct scene *scene, const char *source, const char *id) {
  struct offer offer = { .count = 0 };
  add(&offer, id);
  REQUIRE_OK(take(scene, source, &offer));
  return offer.results[0];
}

static void done(struct scene *scene, const char *source) {
  msgq_hand_over *list = look(scene, source);
  REQUIRE_OK(msgq_hand_over_done(scene->queue, list));
  msgq_handed_over_free(list);
}

/* Checks the ids that the source has handed over; those that could not be kept have a "!". */
#define HANDED(scene, source, expected) CHECK_TEXT(expected, handed((scene), (source)))

static const char *handed(struct scene *scene, const char *source) {
  static char text[1024];
  msgq_hand_over *list = look(scene, source);
  text[0] = '\0';
  for (size_t index = 0; index < msgq_handed_over_size(list); index++) {
    const msgq_handed *entry = msgq_handed_over_at(list, index);
    CHECK_NUMBER(sizeof *entry, entry->struct_size);
    CHECK(entry->at_ms > 0 && (entry->result == MSGQ_OK) == (entry->text[0] == '\0'));
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%s", index == 0 ? "" : " ", entry->result == MSGQ_OK ? "" : "!", entry->id);
  }
  CHECK(msgq_handed_over_at(list, msgq_handed_over_size(list)) == NULL);
  msgq_handed_over_free(list);
  return text;
}

static bool is_gone(struct scene *scene, const char *id) { return status_of(scene, id) == -1; }

static void reopen(struct scene *scene) {
  scene_close(scene);
  scene_open(scene);
}

TEST(T3_messages_and_their_ids_are_taken_over_together) {
  struct scene scene;
  struct stub stub;
  char unsent[128];
  struct offer offer = { .count = 0 };
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  HANDED(&scene, "orders", "");
  add(&offer, "a")->priority = 7;
  add(&offer, "b");
  add(&offer, "c")->conversation = NULL;
  REQUIRE_OK(take(&scene, "orders", &offer));
  for (size_t index = 0; index < offer.count; index++) CHECK_RESULT(MSGQ_OK, offer.results[index]);
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("a b c", unsent);
  HANDED(&scene, "orders", "a b c");
  HANDED(&scene, "mails", "");
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  CHECK(message->body_size == 1 && memcmp(message->body, "a", 1) == 0 && message->priority == 7);
  msgq_message_free(message);
  char path[64];
  AWAIT((journal_path(&scene.journal, "a", path, sizeof path), strcmp(path, "none>queued") == 0));
  reopen(&scene);
  HANDED(&scene, "orders", "a b c");
  done(&scene, "orders");
  HANDED(&scene, "orders", "");
  scene_close(&scene);
  stub_open(&stub, &scene);
  CHECK_NUMBER(3, drain(&scene).sent);
  scene_end(&scene);
}

/* What may become of a message while its hand-over is open. */
static void fate_sent(struct scene *scene) { CHECK_NUMBER(1, drain(scene).sent); }
static void fate_deleted(struct scene *scene) { CHECK_RESULT(MSGQ_OK, msgq_delete(scene->queue, "a")); }
static void fate_cleared(struct scene *scene) { CHECK_RESULT(MSGQ_OK, msgq_clear(scene->queue, NULL)); }
static void fate_conversation_deleted(struct scene *scene) {
  uint64_t count = 0;
  CHECK_RESULT(MSGQ_OK, msgq_delete_conversation(scene->queue, "ana", &count));
}
static void fate_discarded(struct scene *scene) {
  CHECK_NUMBER(1, drain(scene).discarded);
  CHECK(is_gone(scene, "a"));
}
static void fate_failed(struct scene *scene) { CHECK_NUMBER(1, drain(scene).failed); }
static void fate_replaced(struct scene *scene) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "newer";
  draft.conversation = "ana";
  draft.replace_key = "key";
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene->queue, &draft, NULL));
  CHECK(is_gone(scene, "a"));
}

TEST_LONG(T3_an_id_that_was_taken_over_never_comes_back_whatever_became_of_its_message) {
  static const struct {
    const char *name;
    void (*happen)(struct scene *scene);
    msgq_verdict verdict;
    bool is_discarded;
  } fates[] = {
    { "sent", fate_sent, MSGQ_VERDICT_SENT, false },
    { "deleted", fate_deleted, MSGQ_VERDICT_SENT, false },
    { "cleared", fate_cleared, MSGQ_VERDICT_SENT, false },
    { "conversation deleted", fate_conversation_deleted, MSGQ_VERDICT_SENT, false },
    { "discarded", fate_discarded, MSGQ_VERDICT_REJECT, true },
    { "failed", fate_failed, MSGQ_VERDICT_REJECT, false },
    { "replaced", fate_replaced, MSGQ_VERDICT_SENT, false },
  };
  for (size_t index = 0; index < sizeof fates / sizeof *fates; index++) {
    struct scene scene;
    struct stub stub;
    struct offer offer = { .count = 0 };
    scene_begin(&scene);
    scene.options.keep_sent = 0; /* pruned at once */
    scene.options.remember_ids_ms = 0;
    scene.options.refused = fates[index].is_discarded ? MSGQ_REFUSED_DISCARD : MSGQ_REFUSED_KEEP;
      stub_begin(&stub, fates[index].verdict);
    stub_open(&stub, &scene);
    add(&offer, "a")->replace_key = "key";
    REQUIRE_OK(take(&scene, "orders", &offer));
    fates[index].happen(&scene);
    msgq_counts before = counts_of(&scene, NULL);
    for (int time = 0; time < 2; time++) {
      if (!CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "a"))) fprintf(stderr, "  %s\n", fates[index].name);
      msgq_counts after = counts_of(&scene, NULL);
      bool is_equal = before.queued == after.queued && before.sent == after.sent && before.failed == after.failed;
      if (!CHECK(is_equal)) fprintf(stderr, "  %s\n", fates[index].name);
      HANDED(&scene, "orders", "a");
      reopen(&scene);
    }
    done(&scene, "orders");
    /* From here on an id is what it is for msgq_enqueue. */
    msgq_result again = take_one(&scene, "orders", "a");
    if (!CHECK_RESULT(before.failed == 1 ? MSGQ_DUPLICATE : MSGQ_OK, again)) fprintf(stderr, "  %s\n", fates[index].name);
    scene_end(&scene);
  }
}

TEST(T3_an_id_that_the_queue_has_or_remembers_is_no_failure) {
  struct scene scene;
  struct stub stub;
  struct offer offer = { .count = 0 };
  char unsent[128];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "sent", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  REQUIRE_OK(msgq_delete(scene.queue, "sent"));
  put(&scene, "queued", "ana", "hello");
  add(&offer, "sent");
  add(&offer, "queued");
  add(&offer, "new");
  add(&offer, "new")->body_size = 2; /* the same id a second time: the first one counts */
  REQUIRE_OK(take(&scene, "orders", &offer));
  CHECK_RESULT(MSGQ_DUPLICATE, offer.results[0]);
  CHECK_RESULT(MSGQ_DUPLICATE, offer.results[1]);
  CHECK_RESULT(MSGQ_OK, offer.results[2]);
  CHECK_RESULT(MSGQ_DUPLICATE, offer.results[3]);
  HANDED(&scene, "orders", "new queued sent");
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("queued new", unsent);
  /* Deleted now, and offered again before the source has deleted its row. */
  REQUIRE_OK(msgq_delete(scene.queue, "queued"));
  CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "queued"));
  CHECK(is_gone(&scene, "queued"));
  scene_end(&scene);
}

TEST(T3_sources_are_independent) {
  struct scene scene;
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "a"));
  CHECK_RESULT(MSGQ_OK, take_one(&scene, "mails", "b"));
  CHECK_RESULT(MSGQ_DUPLICATE, take_one(&scene, "mails", "a"));
  HANDED(&scene, "orders", "a");
  HANDED(&scene, "mails", "a b");
  done(&scene, "mails");
  HANDED(&scene, "orders", "a");
  HANDED(&scene, "mails", "");
  scene_end(&scene);
}

/* B has taken over, deleted and forgotten rows that A had read before. */
TEST(T3_of_two_collectors_of_a_source_one_begins_again) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  scene_begin_open(&scene);
  add(&offer, "a");
  msgq_hand_over *first = look(&scene, "orders"), *second = look(&scene, "orders"), *other = look(&scene, "mails");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_take_over(scene.queue, first, offer.drafts, 1, offer.results));
  REQUIRE_OK(msgq_take_over(scene.queue, second, offer.drafts, 1, offer.results));
  REQUIRE_OK(msgq_hand_over_done(scene.queue, second));
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_take_over(scene.queue, first, offer.drafts, 1, offer.results));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_hand_over_done(scene.queue, first));
  CHECK(is_gone(&scene, "a"));
  REQUIRE_OK(msgq_hand_over_done(scene.queue, other));
  /* An older list of the other does not forget what this one has not deleted yet. */
  msgq_hand_over *third = look(&scene, "orders");
  REQUIRE_OK(msgq_take_over(scene.queue, third, offer.drafts, 1, offer.results));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_hand_over_done(scene.queue, second));
  HANDED(&scene, "orders", "a");
  /* The list of another opening of the store is an old one, too. */
  msgq_hand_over *last = look(&scene, "orders");
  reopen(&scene);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_take_over(scene.queue, last, offer.drafts, 1, offer.results));
  msgq_handed_over_free(first), msgq_handed_over_free(second), msgq_handed_over_free(third);
  msgq_handed_over_free(other), msgq_handed_over_free(last);
  scene_end(&scene);
}

/* So many sources are looked at that the first one's look is forgotten: it begins again. */
TEST(T3_a_queue_with_many_sources_forgets_old_looks_and_no_hand_over) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "a"));
  msgq_hand_over *first = look(&scene, "orders");
  for (int number = 0; number < 1024; number++) {
    char source[16];
    snprintf(source, sizeof source, "s%d", number);
    msgq_handed_over_free(look(&scene, source));
  }
  add(&offer, "b");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_take_over(scene.queue, first, offer.drafts, 1, offer.results));
  msgq_handed_over_free(first);
  HANDED(&scene, "orders", "a");
  scene_end(&scene);
}

TEST(T3_a_full_queue_takes_over_none) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  scene_begin(&scene);
  scene.options.limit_messages = 2;
  scene_open(&scene);
  put(&scene, "here", "ana", "hello");
  add(&offer, "a");
  add(&offer, "here");
  add(&offer, "b");
  CHECK_RESULT(MSGQ_FULL, take(&scene, "orders", &offer));
  CHECK_RESULT(MSGQ_INTERNAL, offer.results[0]);
  HANDED(&scene, "orders", "");
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  offer.count = 2;
  REQUIRE_OK(take(&scene, "orders", &offer));
  HANDED(&scene, "orders", "a here");
  CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "a")); /* needs no room */
  scene_end(&scene);
  /* The oldest ones give way, and an offered one is a message like others. */
  scene_begin(&scene);
  scene.options.limit_messages = 2;
  scene.options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
  scene_open(&scene);
  put(&scene, "here", "ana", "hello");
  offer.count = 0;
  add(&offer, "a");
  add(&offer, "b");
  REQUIRE_OK(take(&scene, "orders", &offer));
  CHECK(is_gone(&scene, "here") && counts_of(&scene, NULL).queued == 2);
  scene_end(&scene);
}

TEST(T3_a_draft_with_a_replace_key_replaces_the_queued_message) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  char unsent[64];
  scene_begin_open(&scene);
  add(&offer, "a")->replace_key = "key";
  add(&offer, "b")->replace_key = ""; /* none */
  add(&offer, "c")->replace_key = "key";
  add(&offer, "d")->replace_key = "";
  REQUIRE_OK(take(&scene, "orders", &offer));
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("c b d", unsent);
  HANDED(&scene, "orders", "a b c d");
  scene_end(&scene);
}

/* Checks a message that was refused for good, and that the text of its failure contains `text`. */
static void check_refused_for_good(struct scene *scene, const char *id, const char *text) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, message->status);
  if (CHECK(message->failure != NULL)) {
    CHECK_NUMBER(MSGQ_FAILURE_LOCAL, message->failure->kind);
    if (!CHECK(strstr(message->failure->text, text) != NULL)) fprintf(stderr, "  \"%s\"\n", message->failure->text);
    CHECK(!message->failure->retryable && message->failure->at_ms > 0 && message->failure->attempts == 0);
  }
  CHECK_NUMBER(0, message->attempts);
  msgq_message_free(message);
  char path[64];
  AWAIT(journal_reached(&scene->journal, id, MSGQ_STATUS_FAILED));
  journal_path(&scene->journal, id, path, sizeof path);
  CHECK_TEXT("none>failed", path);
}

TEST(T5_what_is_refused_for_good_is_kept_whole_as_failed_and_blocks_nothing) {
  struct scene scene;
  struct stub stub;
  struct offer offer = { .count = 0 };
  static char body[4096], value[512];
  memset(body, 'x', sizeof body);
  memset(value, 'v', sizeof value - 1);
  const msgq_pair pairs[] = { { "k", value } };
  scene_begin(&scene);
  scene.options.limit_body = 1000;
  scene.options.limit_metadata = 100;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  msgq_draft *draft = add(&offer, "large");
  draft->body = body, draft->body_size = sizeof body, draft->replace_key = "key", draft->priority = 3;
  draft = add(&offer, "metadata");
  draft->metadata = pairs, draft->metadata_count = 1;
  add(&offer, "priority")->priority = 101;
  draft = add(&offer, "times");
  draft->not_before_ms = 2000, draft->expires_at_ms = 1000;
  add(&offer, "key")->replace_key = "\xff";
  add(&offer, "time")->time_ms = -1;
  add(&offer, "after");
  REQUIRE_OK(take(&scene, "orders", &offer));
  for (size_t index = 0; index < offer.count; index++) CHECK_RESULT(MSGQ_OK, offer.results[index]);
  HANDED(&scene, "orders", "after key large metadata priority time times");
  check_refused_for_good(&scene, "large", "the body has 4096 bytes; the limit is 1000 bytes");
  check_refused_for_good(&scene, "metadata", "the metadata has 512 bytes");
  check_refused_for_good(&scene, "priority", "the priority must be -100 to 100, got 101");
  check_refused_for_good(&scene, "times", "must expire after");
  check_refused_for_good(&scene, "key", "replace_key is not UTF-8");
  check_refused_for_good(&scene, "time", "the time must be");
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.failed == 6 && counts.queued == 1);
  CHECK_NUMBER(1, drain(&scene).sent); /* "after", behind all of them in its conversation */
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "large", &message));
  CHECK(message->body_size == sizeof body && memcmp(message->body, body, sizeof body) == 0 && message->priority == 3);
  msgq_message_free(message);
  REQUIRE_OK(msgq_get(scene.queue, "metadata", &message));
  CHECK(message->metadata_count == 1 && strcmp(message->metadata[0].value, value) == 0);
  msgq_message_free(message);
  /* A person sees why, and cannot send what the queue would not accept. */
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_retry(scene.queue, "large"));
  uint64_t count = 0;
  REQUIRE_OK(msgq_retry(scene.queue, "priority"));
  AWAIT(status_of(&scene, "priority") == MSGQ_STATUS_SENT);
  REQUIRE_OK(msgq_retry_all(scene.queue, NULL, &count));
  CHECK_NUMBER(4, count);
  AWAIT(counts_of(&scene, NULL).sent == 6);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "large"));
  REQUIRE_OK(msgq_edit(scene.queue, "large", "small", 5));
  REQUIRE_OK(msgq_retry(scene.queue, "large"));
  AWAIT(status_of(&scene, "large") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST(T5_a_message_over_the_limit_is_sent_when_the_limit_is_raised) {
  struct scene scene;
  struct stub stub;
  struct offer offer = { .count = 0 };
  static char body[4096];
  scene_begin(&scene);
  scene.options.limit_body = 1000;
  scene_open(&scene);
  msgq_draft *draft = add(&offer, "large");
  draft->body = body, draft->body_size = sizeof body;
  REQUIRE_OK(take(&scene, "orders", &offer));
  scene_close(&scene);
  scene.options.limit_body = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  REQUIRE_OK(msgq_retry(scene.queue, "large"));
  AWAIT(status_of(&scene, "large") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

/* A failed message of a conversation blocks it with MSGQ_FINAL_BLOCK, as one that failed otherwise does. */
TEST(T5_a_refused_draft_blocks_where_failed_messages_do) {
  struct scene scene;
  struct stub stub;
  struct offer offer = { .count = 0 };
  scene_begin(&scene);
  scene.options.final_failure = MSGQ_FINAL_BLOCK;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  add(&offer, "before");
  add(&offer, "refused")->priority = 1000;
  add(&offer, "behind");
  add(&offer, "other")->conversation = "ben";
  REQUIRE_OK(take(&scene, "orders", &offer));
  CHECK_NUMBER(2, drain(&scene).sent);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "behind"));
  CHECK_NUMBER(MSGQ_REASON_BLOCKED, reason_of(&scene, "behind"));
  REQUIRE_OK(msgq_delete(scene.queue, "refused"));
  CHECK_NUMBER(1, drain(&scene).sent);
  scene_end(&scene);
}

TEST(T5_what_cannot_be_kept_stands_in_the_list_with_its_reason) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  char long_id[301], listed[1024];
  memset(long_id, 'i', 300), long_id[300] = '\0';
  const msgq_pair broken[] = { { "k", "\xc3\x28" } };
  scene_begin_open(&scene);
  add(&offer, "first");
  add(&offer, long_id);
  add(&offer, "new\nline");
  add(&offer, "");
  add(&offer, "\xff\xfe");
  add(&offer, "conversation")->conversation = "a\tb";
  msgq_draft *draft = add(&offer, "metadata");
  draft->metadata = broken, draft->metadata_count = 1;
  add(&offer, "last");
  REQUIRE_OK(take(&scene, "orders", &offer));
  for (size_t index = 0; index < offer.count; index++) {
    bool is_kept = index == 0 || index == offer.count - 1;
    CHECK_RESULT(is_kept ? MSGQ_OK : MSGQ_INVALID, offer.results[index]);
  }
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, counts_of(&scene, NULL).failed);
  for (int time = 0; time < 2; time++) {
    snprintf(listed, sizeof listed, "%s", handed(&scene, "orders"));
    CHECK(strstr(listed, "first last !") == listed);
    CHECK(strstr(listed, "!conversation") && strstr(listed, "!metadata") && strstr(listed, "!new\\nline"));
    msgq_hand_over *list = look(&scene, "orders");
    CHECK_NUMBER(8, msgq_handed_over_size(list));
    for (size_t index = 2; index < msgq_handed_over_size(list); index++) {
      const msgq_handed *entry = msgq_handed_over_at(list, index);
      CHECK_RESULT(MSGQ_INVALID, entry->result);
      CHECK(strlen(entry->id) <= 255 && entry->text[0] != '\0');
      if (entry->id[0] == 'i') CHECK(entry->body_size == 300 && strstr(entry->text, "more than 255 bytes") != NULL);
    }
    msgq_handed_over_free(list);
    /* Offered again, it is the same. */
    REQUIRE_OK(take(&scene, "orders", &offer));
    reopen(&scene);
  }
  done(&scene, "orders");
  snprintf(listed, sizeof listed, "%s", handed(&scene, "orders"));
  CHECK(strstr(listed, "first") == NULL && strstr(listed, "!metadata") != NULL);
  CHECK_RESULT(MSGQ_OK, msgq_hand_over_forget(scene.queue, "orders", "metadata"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_hand_over_forget(scene.queue, "orders", "metadata"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_hand_over_forget(scene.queue, "mails", "conversation"));
  CHECK(strstr(handed(&scene, "orders"), "metadata") == NULL);
  CHECK_RESULT(MSGQ_OK, msgq_hand_over_forget(scene.queue, "orders", NULL));
  HANDED(&scene, "orders", "");
  CHECK_RESULT(MSGQ_OK, msgq_hand_over_forget(scene.queue, "orders", NULL));
  scene_end(&scene);
}

/* Also as a failed message such a draft would leave no room for others. */
TEST(T5_a_body_that_fits_into_no_empty_queue_is_listed_and_blocks_nothing) {
  static char body[2000000];
  for (int kind = 0; kind < 3; kind++) {
    struct scene scene;
    struct offer offer = { .count = 0 };
    scene_begin(&scene);
    scene.options.on_full = kind == 1 ? MSGQ_ON_FULL_DROP_OLDEST : MSGQ_ON_FULL_REFUSE;
    if (kind == 2) scene.options.limit_file_bytes = 1000000; else scene.options.limit_bytes = 1000;
    scene_open(&scene);
    msgq_draft *large = add(&offer, "large");
    large->body = body, large->body_size = kind == 2 ? 1000001 : 1001;
    add(&offer, "small");
    add(&offer, "known")->conversation = "ben";
    REQUIRE_OK(take(&scene, "orders", &offer));
    CHECK_RESULT(MSGQ_TOO_LARGE, offer.results[0]);
    CHECK_RESULT(MSGQ_OK, offer.results[1]);
    HANDED(&scene, "orders", "known small !large");
    CHECK(counts_of(&scene, NULL).queued == 2 && counts_of(&scene, NULL).failed == 0);
    /* What the queue has already is no failure, whatever its limits are now. */
    offer.drafts[2].body = body, offer.drafts[2].body_size = large->body_size;
    REQUIRE_OK(take(&scene, "orders", &offer));
    CHECK_RESULT(MSGQ_TOO_LARGE, offer.results[0]);
    CHECK_RESULT(MSGQ_OK, offer.results[2]);
    scene_end(&scene);
  }
}

TEST(T5_a_body_over_256_MiB_is_listed_with_its_size) {
  enum { ceiling = 256 << 20 };
  struct scene scene;
  struct offer offer = { .count = 0 };
  char *body = calloc(ceiling + 1, 1);
  REQUIRE(body != NULL);
  scene_begin_open(&scene);
  msgq_draft *draft = add(&offer, "over");
  draft->body = body, draft->body_size = ceiling + 1;
  add(&offer, "after");
  REQUIRE_OK(take(&scene, "orders", &offer));
  CHECK_RESULT(MSGQ_TOO_LARGE, offer.results[0]);
  CHECK_RESULT(MSGQ_OK, offer.results[1]);
  msgq_hand_over *list = look(&scene, "orders");
  REQUIRE(msgq_handed_over_size(list) == 2);
  const msgq_handed *entry = msgq_handed_over_at(list, 1);
  CHECK_TEXT("over", entry->id);
  CHECK_NUMBER(ceiling + 1, entry->body_size);
  CHECK_RESULT(MSGQ_TOO_LARGE, entry->result);
  msgq_handed_over_free(list);
  CHECK(is_gone(&scene, "over") && counts_of(&scene, NULL).failed == 0);
  scene_end(&scene);
  free(body);
}

TEST(T3_bad_arguments_of_a_hand_over_change_nothing) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  msgq_hand_over *list = NULL;
  char source[257];
  memset(source, 's', 256), source[256] = '\0';
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(scene.queue, NULL, &list));
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(scene.queue, "", &list));
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(scene.queue, "a\nb", &list));
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(scene.queue, source, &list));
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(scene.queue, "\xff", &list));
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(scene.queue, "orders", NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over(NULL, "orders", &list));
  CHECK(list == NULL);
  list = look(&scene, "orders");
  add(&offer, "a");
  add(&offer, "b");
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, NULL, offer.drafts, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, list, NULL, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, list, offer.drafts, 1000001, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, list, offer.drafts, SIZE_MAX, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_take_over(scene.queue, list, NULL, 0, NULL));
  offer.drafts[1].id = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, list, offer.drafts, 2, offer.results));
  CHECK(strstr(msgq_error_detail(), "draft 1: ") != NULL);
  offer.drafts[1].id = "b";
  offer.drafts[1].body = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, list, offer.drafts, 2, offer.results));
  offer.drafts[1].body = "b";
  offer.drafts[1].struct_size = 56;
  CHECK_RESULT(MSGQ_INVALID, msgq_take_over(scene.queue, list, offer.drafts, 2, offer.results));
  CHECK_RESULT(MSGQ_INVALID, msgq_hand_over_done(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_hand_over_forget(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_hand_over_forget(scene.queue, "", NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, msgq_handed_over_size(NULL));
  CHECK(msgq_handed_over_at(NULL, 0) == NULL);
  msgq_handed_over_free(list);
  msgq_handed_over_free(NULL);
  HANDED(&scene, "orders", "");
  scene_end(&scene);
}

TEST_LONG(T3_a_large_hand_over_is_taken_over_and_forgotten_whole) {
  enum { count = 3000 };
  struct scene scene;
  static msgq_draft drafts[count];
  static char ids[count][8];
  scene_begin_open(&scene);
  for (int index = 0; index < count; index++) {
    snprintf(ids[index], sizeof ids[index], "%05d", index);
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].id = ids[index];
    drafts[index].conversation = index % 2 ? "ana" : "ben";
    drafts[index].priority = index % 500 == 0 ? 1000 : 0; /* some are refused for good */
  }
  msgq_hand_over *list = look(&scene, "orders");
  REQUIRE_OK(msgq_take_over(scene.queue, list, drafts, count, NULL));
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.queued == count - 6 && counts.failed == 6);
  REQUIRE_OK(msgq_take_over(scene.queue, list, drafts, count, NULL));
  CHECK_NUMBER(count - 6, counts_of(&scene, NULL).queued);
  msgq_hand_over *all = look(&scene, "orders");
  CHECK_NUMBER(count, msgq_handed_over_size(all));
  REQUIRE_OK(msgq_hand_over_done(scene.queue, all));
  msgq_handed_over_free(all), msgq_handed_over_free(list);
  HANDED(&scene, "orders", "");
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_close(&scene);
  REQUIRE_OK(msgq_check(scene.path, &report));
  CHECK_TEXT("", report.sound ? "" : report.text);
  scene_end(&scene);
}

TEST_LONG(T3_a_salvage_and_a_backup_keep_the_hand_over_and_damage_is_told) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin_open(&scene);
  add(&offer, "a");
  add(&offer, "b");
  add(&offer, "bad\nid");
  REQUIRE_OK(take(&scene, "orders", &offer));
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  const char *backup = scene_file(&scene, "backup.db");
  REQUIRE_OK(msgq_backup(scene.queue, backup));
  scene_close(&scene);
  const char *salvaged = scene_file(&scene, "salvaged.db");
  REQUIRE_OK(msgq_salvage(scene.path, salvaged, &report));
  CHECK_TEXT("", report.sound ? "" : report.text);
  char original[sizeof scene.path];
  snprintf(original, sizeof original, "%s", scene.path);
  const char *copies[] = { backup, salvaged };
  for (int index = 0; index < 2; index++) {
    snprintf(scene.path, sizeof scene.path, "%s", copies[index]);
    scene_open(&scene);
    HANDED(&scene, "orders", "a b !bad\\nid");
    CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "a"));
    CHECK(is_gone(&scene, "a"));
    scene_close(&scene);
  }
  snprintf(scene.path, sizeof scene.path, "%s", original);
  sql_run(scene.path, "UPDATE handed_over SET id = 'c' WHERE id = 'a'");
  REQUIRE_OK(msgq_check(scene.path, &report));
  CHECK(!report.sound && strstr(report.text, "damaged rows of the table handed_over: 1") != NULL);
  scene_open(&scene);
  msgq_hand_over *list = NULL;
  CHECK_RESULT(MSGQ_CORRUPT, msgq_handed_over(scene.queue, "orders", &list));
  CHECK(list == NULL);
  scene_close(&scene);
  const char *again = scene_file(&scene, "again.db");
  REQUIRE_OK(msgq_salvage(scene.path, again, &report));
  CHECK(strstr(report.text, "some ids that were handed over are lost") != NULL);
  snprintf(scene.path, sizeof scene.path, "%s", again);
  scene_open(&scene);
  HANDED(&scene, "orders", "b !bad\\nid");
  scene_end(&scene);
}

TEST(T3_a_store_that_is_read_only_shows_a_hand_over_and_takes_nothing_over) {
  struct scene scene;
  struct offer offer = { .count = 0 };
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_OK, take_one(&scene, "orders", "a"));
  scene_close(&scene);
  scene.options.read_only = true;
  scene_open(&scene);
  HANDED(&scene, "orders", "a");
  add(&offer, "b");
  CHECK_RESULT(MSGQ_PERMISSION, take(&scene, "orders", &offer));
  msgq_hand_over *list = look(&scene, "orders");
  CHECK_RESULT(MSGQ_PERMISSION, msgq_hand_over_done(scene.queue, list));
  msgq_handed_over_free(list);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_hand_over_forget(scene.queue, "orders", NULL));
  scene_end(&scene);
}
