/* Option values and strings out of range. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

static const int64_t day_ms = 86400000;

static void refuse_options(const struct scene *scene, const msgq_options *options, const char *what) {
  msgq_queue *queue = NULL;
  msgq_result result = msgq_open(scene->path, options, &queue);
  if (!CHECK(result == MSGQ_INVALID && queue == NULL)) fprintf(stderr, "  %s: %s\n", what, msgq_result_name(result));
  if (queue != NULL) msgq_close(queue, 0);
}

/* Checks that msgq_open refuses one value of one option. */
#define REFUSE(field, value)                         \
  do {                                               \
    msgq_options options = MSGQ_OPTIONS_INIT;        \
    options.field = (value);                         \
    refuse_options(&scene, &options, #field " " #value); \
  } while (0)

TEST(bad_options_out_of_range) {
  struct scene scene;
  scene_begin(&scene);
  REFUSE(mode, (msgq_mode)3);
  REFUSE(callbacks, (msgq_callbacks)3);
  REFUSE(backoff, (msgq_backoff)3);
  REFUSE(exhausted, (msgq_exhausted)2);
  REFUSE(refused, (msgq_refused)2);
  REFUSE(max_in_flight, 65);
  REFUSE(max_retries, 1001);
  REFUSE(jitter, -0.01);
  REFUSE(jitter, 1.01);
  REFUSE(jitter, (double)NAN);
  REFUSE(attempt_timeout_ms, -1);
  REFUSE(attempt_timeout_ms, day_ms + 1);
  REFUSE(on_demand_timeout_ms, -1);
  REFUSE(on_demand_timeout_ms, day_ms + 1);
  REFUSE(prompt_timeout_ms, -1);
  REFUSE(prompt_timeout_ms, day_ms + 1);
  REFUSE(online_debounce_ms, -1);
  REFUSE(online_debounce_ms, 3600001);
  REFUSE(final_failure, (msgq_final_failure)2);
  REFUSE(trigger_interval_ms, -1);
  REFUSE(trigger_interval_ms, day_ms + 1);
  REFUSE(collect_interval_ms, -1);
  REFUSE(collect_interval_ms, day_ms + 1);
  REFUSE(expiry_ms, -1);
  REFUSE(expiry_ms, 11 * 366 * day_ms);
  REFUSE(remember_ids_ms, -1);
  REFUSE(limit_body, 268435457);
  REFUSE(limit_metadata, 16777217);
  REFUSE(on_full, (msgq_on_full)2);
  REFUSE(limit_file_bytes, -1);
  REFUSE(rate_per_second, -1);
  REFUSE(rate_per_second, (double)NAN);
  REFUSE(rate_per_second, 1000001);
  REFUSE(ramp_up_ms, 1000);
  CHECK_NUMBER(0, directory_entries(scene.directory));
  scene_end(&scene);
}

TEST(contract_zero_options_mean_the_defaults) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.max_in_flight = 0;
  scene.options.attempt_timeout_ms = scene.options.on_demand_timeout_ms = scene.options.prompt_timeout_ms = 0;
  scene.options.limit_body = 0;
  scene.options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene.options.backoff_base_ms = scene.options.backoff_cap_ms = 0;
  scene.options.backoff_factor = 0;
  scene_open(&scene);
  static char body[1048577];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "a";
  draft.body = body;
  draft.body_size = sizeof body;
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_enqueue(scene.queue, &draft, NULL));
  draft.body_size--;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene.queue, &draft, NULL));
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  drain(&scene);
  CHECK_NUMBER(30000, atomic_load(&stub.timeout_ms));
  CHECK(delay_of(&scene, "a") >= 5000 && delay_of(&scene, "a") < 10000);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(attempts_of(&scene, "a") == 2 && status_of(&scene, "a") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(3000, atomic_load(&stub.timeout_ms));
  CHECK(delay_of(&scene, "a") >= 10000 && delay_of(&scene, "a") < 20000);
  scene_end(&scene);
}

TEST(contract_a_base_above_the_default_cap_raises_the_cap) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene.options.backoff_base_ms = 2 * 3600000;
  scene.options.backoff_cap_ms = 3600000;
  refuse_options(&scene, &scene.options, "a base above an explicit cap");
  msgq_options options = MSGQ_OPTIONS_INIT;
  scene.options.backoff_cap_ms = options.backoff_cap_ms;
  scene_open(&scene);
  scene_end(&scene);
}

TEST(contract_zero_is_kept_where_it_has_a_meaning) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.max_retries = 0;
  scene.options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene.options.limit_metadata = 0;
  scene_open(&scene);
  const msgq_pair pair = { "key", "value" };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.metadata = &pair;
  draft.metadata_count = 1;
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_enqueue(scene.queue, &draft, NULL));
  put(&scene, "a", "ana", "hello");
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.batch = 0;
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, &options, NULL));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(contract_options_at_the_ends_of_their_ranges_are_accepted) {
  struct scene scene;
  msgq_options least = MSGQ_OPTIONS_INIT, most = MSGQ_OPTIONS_INIT;
  scene_begin(&scene);
  least.keep_sent = 0;
  least.keep_sent_ms = 0;
  least.remember_ids_ms = 0;
  least.trigger_interval_ms = least.expiry_ms = least.online_debounce_ms = 0;
  most.keep_sent = UINT64_MAX;
  most.keep_sent_ms = INT64_MAX;
  most.remember_ids_ms = INT64_MAX;
  most.trigger_interval_ms = most.collect_interval_ms = day_ms;
  most.expiry_ms = 3650 * day_ms;
  most.jitter = 1;
  most.max_in_flight = 64;
  most.max_retries = 1000;
  const msgq_options *const ends[] = { &least, &most };
  for (size_t index = 0; index < 2; index++) {
    char id[8];
    snprintf(id, sizeof id, "m%zu", index);
    REQUIRE_OK(msgq_open(scene.path, ends[index], &scene.queue));
    put(&scene, id, "ana", "hello");
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, id));
    scene_close(&scene);
  }
  scene_end(&scene);
}

TEST(bad_backoff_options) {
  static const int64_t ladder[65] = { 0 }, negative[] = { -1 }, too_long[] = { 7 * 86400000 + 1 };
  static const struct {
    int64_t base, cap;
    double factor;
  } exponential[] = {
    { -1, 3600000, 2 },      { 5000, -1, 2 },       { 5000, 3600000, -1 },
    { 7 * 86400000 + 1, 7 * 86400000 + 1, 2 }, { 5000, 4999, 2 }, { 5000, 7 * 86400000 + 1, 2 },
    { 5000, 3600000, 0.99 }, { 5000, 3600000, 100.01 }, { 5000, 3600000, (double)NAN }, { 5000, 3600000, (double)INFINITY },
  };
  struct scene scene;
  msgq_options options = MSGQ_OPTIONS_INIT;
  scene_begin(&scene);
  options.backoff = MSGQ_BACKOFF_LADDER;
  options.ladder_count = 1;
  refuse_options(&scene, &options, "no ladder");
  options.ladder_ms = negative;
  refuse_options(&scene, &options, "a negative delay");
  options.ladder_ms = too_long;
  refuse_options(&scene, &options, "a delay of more than 7 days");
  options.ladder_ms = ladder;
  options.ladder_count = 65;
  refuse_options(&scene, &options, "65 delays");
  options.ladder_count = 64;
  CHECK_RESULT(MSGQ_OK, msgq_open(scene.path, &options, &scene.queue));
  scene_close(&scene);
  options = (msgq_options)MSGQ_OPTIONS_INIT;
  options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  for (size_t index = 0; index < sizeof exponential / sizeof exponential[0]; index++) {
    char what[32];
    snprintf(what, sizeof what, "exponential %zu", index);
    options.backoff_base_ms = exponential[index].base;
    options.backoff_cap_ms = exponential[index].cap;
    options.backoff_factor = exponential[index].factor;
    refuse_options(&scene, &options, what);
  }
  scene_end(&scene);
}

TEST(bad_backoff_fields_are_refused_whatever_backoff_is_chosen) {
  static const int64_t ladder[65] = { 0 }, negative[] = { -1 };
  static const msgq_backoff backoffs[] = { MSGQ_BACKOFF_AUTOMATIC, MSGQ_BACKOFF_LADDER, MSGQ_BACKOFF_EXPONENTIAL };
  struct scene scene;
  scene_begin(&scene);
  for (size_t index = 0; index < sizeof backoffs / sizeof *backoffs; index++) {
#define REFUSE_WITH(set)                      \
  do {                                        \
    msgq_options options = MSGQ_OPTIONS_INIT; \
    options.backoff = backoffs[index];        \
    set;                                      \
    refuse_options(&scene, &options, #set);   \
  } while (0)
    REFUSE_WITH(options.backoff_factor = (double)NAN);
    REFUSE_WITH(options.backoff_factor = (double)INFINITY);
    REFUSE_WITH(options.backoff_factor = 0.99);
    REFUSE_WITH(options.backoff_base_ms = -1);
    REFUSE_WITH(options.backoff_base_ms = INT64_MAX);
    REFUSE_WITH(options.backoff_cap_ms = INT64_MIN);
    REFUSE_WITH(options.backoff_cap_ms = 4999);
    REFUSE_WITH((options.ladder_ms = ladder, options.ladder_count = 65));
    REFUSE_WITH((options.ladder_ms = ladder, options.ladder_count = SIZE_MAX));
    REFUSE_WITH((options.ladder_ms = NULL, options.ladder_count = 1));
    REFUSE_WITH((options.ladder_ms = negative, options.ladder_count = 1));
#undef REFUSE_WITH
  }
  scene_end(&scene);
}

static msgq_result put_strings(struct scene *scene, const char *id, const char *conversation, const char *key, const char *value) {
  const msgq_pair pair = { key, value };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.metadata = &pair;
  draft.metadata_count = key != NULL ? 1 : 0;
  return msgq_enqueue(scene->queue, &draft, NULL);
}

static const char *const broken_utf8[] = {
  "\xff", "a\x80", "\xc3", "\xc3(", "\xe2\x98", "\xf0\x9f\x98", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
};
static const char *const with_control[] = { "a\nb", "\x01", "tab\t", "\x1f", "\x7f", "\xc2\x85" };

TEST(bad_strings_in_a_draft) {
  struct scene scene;
  char bytes256[257];
  memset(bytes256, 'x', 256);
  bytes256[256] = '\0';
  scene_begin_open(&scene);
  for (size_t index = 0; index < sizeof broken_utf8 / sizeof broken_utf8[0]; index++) {
    CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, broken_utf8[index], "c", NULL, NULL));
    CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, NULL, broken_utf8[index], NULL, NULL));
    CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, NULL, "c", broken_utf8[index], "value"));
    CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, NULL, "c", "key", broken_utf8[index]));
  }
  for (size_t index = 0; index < sizeof with_control / sizeof with_control[0]; index++) {
    CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, with_control[index], "c", NULL, NULL));
    CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, NULL, with_control[index], NULL, NULL));
  }
  CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, "", "c", NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, bytes256, "c", NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, NULL, bytes256, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, put_strings(&scene, NULL, "c", "", "value"));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, put_strings(&scene, bytes256 + 1, bytes256 + 1, "k", "anything but NUL: \n\x01"));
  CHECK_RESULT(MSGQ_OK, put_strings(&scene, "sm\xc3\xb8rrebr\xc3\xb8" "d \xf0\x9f\x98\x80", "", NULL, NULL));
  scene_end(&scene);
}

TEST(bad_metadata_with_a_duplicate_key) {
  struct scene scene;
  const msgq_pair pairs[] = { { "a", "1" }, { "b", "2" }, { "a", "3" } };
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.metadata = pairs;
  draft.metadata_count = 3;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
  draft.metadata_count = 2;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene.queue, &draft, NULL));
  scene_end(&scene);
}

TEST(bad_strings_in_other_calls) {
  struct scene scene;
  struct stub stub;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  for (size_t index = 0; index < sizeof broken_utf8 / sizeof broken_utf8[0]; index++) {
    const char *text = broken_utf8[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_get(scene.queue, text, &message));
    CHECK_RESULT(MSGQ_INVALID, msgq_edit(scene.queue, text, "x", 1));
    CHECK_RESULT(MSGQ_INVALID, msgq_delete(scene.queue, text));
    CHECK_RESULT(MSGQ_INVALID, msgq_retry(scene.queue, text));
    CHECK_RESULT(MSGQ_INVALID, msgq_send_now(scene.queue, text));
    CHECK_RESULT(MSGQ_INVALID, msgq_mark(scene.queue, text, MSGQ_STATUS_READ));
    CHECK_RESULT(MSGQ_INVALID, msgq_attempts(scene.queue, text, &ledger));
    CHECK_RESULT(MSGQ_INVALID, msgq_count(scene.queue, text, &counts));
    CHECK_RESULT(MSGQ_INVALID, msgq_clear(scene.queue, text));
    uint64_t count = 4711;
    CHECK_RESULT(MSGQ_INVALID, msgq_retry_all(scene.queue, text, &count));
    CHECK_NUMBER(4711, count);
    msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
    options.conversation = text;
    CHECK_RESULT(MSGQ_INVALID, msgq_drain(scene.queue, &options, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_drain_async(scene.queue, &options, NULL, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_backup(scene.queue, text));
    CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, &draft, text, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_explain(scene.queue, text, &explanation));
    CHECK_RESULT(MSGQ_INVALID, msgq_pause(scene.queue, text));
    CHECK_RESULT(MSGQ_INVALID, msgq_resume(scene.queue, text));
  }
  CHECK(message == NULL && ledger == NULL);
  char bytes256[257];
  memset(bytes256, 'x', 256);
  bytes256[256] = '\0';
  CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, &draft, bytes256, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, &draft, "", NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_pause(scene.queue, bytes256));
  CHECK_RESULT(MSGQ_INVALID, msgq_resume(scene.queue, bytes256));
  CHECK_NUMBER(0, counts_of(&scene, NULL).received);
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &draft, bytes256 + 1, NULL));
  scene_end(&scene);
}

static void no_batch(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context, (void)deliveries, (void)count, (void)outcomes;
}

/* The largest numbers of C are larger than those that the library computes with. */
TEST(bad_values_are_named_as_they_were_given) {
  struct scene scene;
  msgq_queue *none = NULL;
  const uint64_t given[] = { UINT64_MAX, (uint64_t)INT64_MAX + 1, INT64_MAX, (UINT64_C(1) << 30) + 1 };
  scene_begin_open(&scene);
#define REFUSED_AS(text, call)                                   \
  do {                                                           \
    char expected[160];                                          \
    snprintf(expected, sizeof expected, text "%" PRIu64, value); \
    CHECK_RESULT(MSGQ_INVALID, call);                            \
    CHECK_TEXT(expected, msgq_error_detail());                   \
  } while (0)
  for (size_t index = 0; index < sizeof given / sizeof *given; index++) {
    const uint64_t value = given[index];
    msgq_options body = MSGQ_OPTIONS_INIT, metadata = MSGQ_OPTIONS_INIT;
    msgq_batch_options bytes = MSGQ_BATCH_OPTIONS_INIT, batches = MSGQ_BATCH_OPTIONS_INIT;
    body.limit_body = metadata.limit_metadata = bytes.max_bytes = batches.max_batches = value;
    REFUSED_AS("limit of one body must be 1 to 268435456 bytes, got ", msgq_open(scene.path, &body, &none));
    REFUSED_AS("limit of metadata must be 0 to 16777216 bytes, got ", msgq_open(scene.path, &metadata, &none));
    REFUSED_AS("max bytes of a batch must be 1 to 1073741824, got ", msgq_set_batch_transport(scene.queue, no_batch, NULL, NULL, &bytes));
    REFUSED_AS("max batches in flight must be 0 to 64, got ", msgq_set_batch_transport(scene.queue, no_batch, NULL, NULL, &batches));

    msgq_draft draft = MSGQ_DRAFT_INIT;
    msgq_outcome outcome = MSGQ_OUTCOME_INIT;
    char *text = NULL;
    REFUSED_AS("count must be 0 to 1000000, got ", msgq_enqueue_batch(scene.queue, &draft, value, NULL));
    REFUSED_AS("count must be 0 to 1000000, got ", msgq_enqueue_bodies(scene.queue, &draft, "a", 1, (size_t[]) { 1 }, value, NULL));
    REFUSED_AS("count must be 0 to 1000000, got ", msgq_record_batch(scene.queue, &draft, NULL, value, NULL));
    REFUSED_AS("count must be 0 to 1000000, got ",
               msgq_mark_batch(scene.queue, (const char *[]) { "a" }, value, MSGQ_STATUS_READ, NULL));
    REFUSED_AS("count must be 0 to 1000000, got ", msgq_complete_batch(scene.queue, (uint64_t[]) { 1 }, &outcome, value, NULL));
    REFUSED_AS("count must be 0 to 1000, got ", msgq_stats_text_all(&scene.queue, value, &text));
  }
#undef REFUSED_AS
  CHECK(none == NULL);
  scene_end(&scene);
}

TEST(bad_enumerators_times_and_bits_are_named_as_they_were_given) {
  struct scene scene;
  msgq_queue *none = NULL;
  const int given[] = { -1, INT_MIN, INT_MAX };
  scene_begin_open(&scene);
  put(&scene, "m", "", "x");
#define REFUSED_AS(format, number, call)                 \
  do {                                                   \
    char expected[160];                                  \
    snprintf(expected, sizeof expected, format, number); \
    CHECK_RESULT(MSGQ_INVALID, call);                    \
    CHECK_TEXT(expected, msgq_error_detail());           \
  } while (0)
#define OPTION(field, type)                                                              \
  do {                                                                                   \
    msgq_options options = MSGQ_OPTIONS_INIT;                                            \
    options.field = (type)value;                                                         \
    REFUSED_AS("invalid " #field ": %d", value, msgq_open(scene.path, &options, &none)); \
  } while (0)
  for (size_t index = 0; index < sizeof given / sizeof *given; index++) {
    const int value = given[index];
    OPTION(mode, msgq_mode);
    OPTION(callbacks, msgq_callbacks);
    OPTION(final_failure, msgq_final_failure);
    OPTION(backoff, msgq_backoff);
    OPTION(exhausted, msgq_exhausted);
    OPTION(refused, msgq_refused);
    OPTION(on_full, msgq_on_full);
    REFUSED_AS("invalid status: %d", value, msgq_mark(scene.queue, "m", (msgq_status)value));
    REFUSED_AS("invalid connectivity: %d", value, msgq_set_connectivity(scene.queue, (msgq_connectivity)value, MSGQ_LINK_OTHER, false));
    REFUSED_AS("invalid link: %d", value, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, (msgq_link)value, false));
    REFUSED_AS("invalid lifecycle: %d", value, msgq_set_lifecycle(scene.queue, (msgq_lifecycle)value));
    msgq_outcome verdict = MSGQ_OUTCOME_INIT, kind = MSGQ_OUTCOME_INIT;
    verdict.verdict = (msgq_verdict)value;
    kind.kind = (msgq_failure_kind)value;
    REFUSED_AS("invalid verdict: %d", value, msgq_complete(scene.queue, 1, &verdict));
    REFUSED_AS("invalid failure kind: %d", value, msgq_complete(scene.queue, 1, &kind));
  }
#undef OPTION
  const int64_t times[] = { -1, INT64_MIN };
  for (size_t index = 0; index < sizeof times / sizeof *times; index++) {
    msgq_draft early = MSGQ_DRAFT_INIT, late = MSGQ_DRAFT_INIT;
    early.not_before_ms = late.expires_at_ms = times[index];
    REFUSED_AS("not_before_ms must not be negative, got %" PRId64, times[index], msgq_enqueue(scene.queue, &early, NULL));
    REFUSED_AS("expires_at_ms must not be negative, got %" PRId64, times[index], msgq_enqueue(scene.queue, &late, NULL));
    msgq_draft delayed = MSGQ_DRAFT_INIT, short_lived = MSGQ_DRAFT_INIT;
    delayed.delay_ms = short_lived.expiry_ms = times[index];
    REFUSED_AS("delay_ms must be 0 to 315619200000 (10 years), got %" PRId64, times[index], msgq_enqueue(scene.queue, &delayed, NULL));
    REFUSED_AS("expiry_ms must be 0 to 315619200000 (10 years), got %" PRId64, times[index], msgq_enqueue(scene.queue, &short_lived, NULL));
  }
  msgq_draft brief = MSGQ_DRAFT_INIT;
  brief.not_before_ms = brief.expires_at_ms = wall_ms() + 60000;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &brief, NULL));
  CHECK_TEXT("the message must expire after its not-before time", msgq_error_detail());
  brief.expires_at_ms++;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene.queue, &brief, NULL));
  brief.delay_ms = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &brief, NULL));
  CHECK_TEXT("not_before_ms and delay_ms must not both be given", msgq_error_detail());
  brief.not_before_ms = 0;
  brief.delay_ms = 120000;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &brief, NULL));
  CHECK_TEXT("the message must expire after its not-before time", msgq_error_detail());
  brief.expiry_ms = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &brief, NULL));
  CHECK_TEXT("expires_at_ms and expiry_ms must not both be given", msgq_error_detail());
  brief.expires_at_ms = 0;
  brief.delay_ms = INT64_MAX;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &brief, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &brief, "Ana", NULL)); /* they have no meaning there */
  const uint32_t bits[] = { 64, UINT32_MAX };
  for (size_t index = 0; index < sizeof bits / sizeof *bits; index++) {
    msgq_filter filter = MSGQ_FILTER_INIT;
    msgq_page *page = NULL;
    filter.statuses = bits[index];
    REFUSED_AS("statuses must contain at least one status and no unknown one, got %" PRIu32, bits[index], msgq_list(scene.queue, &filter, &page));
  }
#undef REFUSED_AS
  CHECK(none == NULL);
  scene_end(&scene);
}

TEST(bad_batches_of_a_drain_are_over_the_documented_limit) {
  struct scene scene;
  struct stub stub;
  msgq_drain_options drained = MSGQ_DRAIN_OPTIONS_INIT;
  scene_begin(&scene);
  scene.options.drain_batch = (uint32_t)INT32_MAX + 1;
  refuse_options(&scene, &scene.options, "drain_batch 2^31");
  scene.options.drain_batch = INT32_MAX;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  drained.batch = (uint32_t)INT32_MAX + 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_drain(scene.queue, &drained, NULL));
  drained.batch = INT32_MAX;
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, &drained, NULL));
  scene_end(&scene);
}

/* ---------------------------------------------------------------- the ends of ranges */

static size_t listed_after(struct scene *scene, uint64_t after, bool newest_first) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *page = NULL;
  filter.after = after;
  filter.newest_first = newest_first;
  REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
  size_t size = msgq_list_size(page);
  msgq_list_free(page);
  return size;
}

TEST(H3_contract_every_number_is_a_place_in_the_order) {
  static const uint64_t places[] = { INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };
  struct scene scene;
  msgq_conversation_page *page = NULL;
  scene_begin_open(&scene);
  put_each(&scene, { "a", "ana", "1" }, { "b", "ben", "2" }, { "c", "ana", "3" });
  for (size_t index = 0; index < sizeof places / sizeof *places; index++) {
    CHECK_NUMBER(0, listed_after(&scene, places[index], false));
    CHECK_NUMBER(3, listed_after(&scene, places[index], true));
    REQUIRE_OK(msgq_conversations(scene.queue, places[index], 0, &page));
    CHECK_NUMBER(2, msgq_conversations_size(page));
    msgq_conversations_free(page);
  }
  scene_end(&scene);
}

TEST(F2_the_latest_expiry_is_sooner_than_none) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.soonest_expiry_first = true;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put_timed(&scene, "never", "ana", 0, 0);
  put_timed(&scene, "late", "ben", 0, INT64_MAX);
  put_timed(&scene, "sooner", "cem", 0, INT64_MAX - 1);
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&scene, "never"));
  static const char *const order[] = { "sooner", "late", "never" };
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.batch = 1;
  for (size_t index = 0; index < 3; index++) {
    CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, &options, NULL));
    CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, order[index]));
    CHECK_NUMBER(index + 1, atomic_load(&stub.calls));
  }
  scene_end(&scene);
}

TEST(H1_a_recorded_message_ignores_what_concerns_sending) {
  char long_key[600];
  memset(long_key, 'k', sizeof long_key - 1);
  long_key[sizeof long_key - 1] = '\0';
  const char *const keys[] = { long_key, "\xff", "a\nb", "key" };
  struct scene scene;
  scene_begin_open(&scene);
  for (size_t index = 0; index < sizeof keys / sizeof *keys; index++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.replace_key = keys[index];
    draft.priority = INT32_MIN;
    draft.not_before_ms = INT64_MAX;
    draft.expires_at_ms = INT64_MIN;
    CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &draft, "ben", NULL));
  }
  CHECK_NUMBER(4, counts_of(&scene, NULL).received);
  scene_end(&scene);
}

/* The debug library ends the process where a computation overflows. */
TEST(contract_the_ends_of_the_ranges_of_arguments) {
  struct scene scene;
  struct stub stub;
  char text[32];
  msgq_report report = MSGQ_REPORT_INIT;
  scene_begin(&scene);
  scene.options.keep_sent = UINT64_MAX - 1;
  scene.options.keep_sent_ms = INT64_MIN;
  scene.options.remember_ids_ms = INT64_MAX;
  scene.options.limit_messages = scene.options.limit_bytes = UINT64_MAX;
  scene.options.limit_file_bytes = INT64_MAX;
  scene.options.rate_per_second = 1000000;
  scene.options.rate_burst = UINT32_MAX;
  scene.options.ramp_up_ms = day_ms;
  scene.options.jitter = 1;
  scene.options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene.options.backoff_factor = 100;
  scene.options.max_retries = 1000;
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.retry_after_ms = INT64_MAX;
  stub_open(&stub, &scene);
  put_timed(&scene, "a", "ana", 0, INT64_MAX);
  put_timed(&scene, "b", "ben", INT64_MAX - 1, INT64_MAX);
  put_timed(&scene, "c", "cem", INT64_MAX, 0);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  static const int64_t timeouts[] = { INT64_MAX, INT64_MIN, 100 };
  for (size_t index = 0; index < 3; index++) {
    options.timeout_ms = timeouts[index];
    options.batch = INT32_MAX;
    msgq_result result = msgq_drain(scene.queue, &options, &report);
    CHECK(result == MSGQ_OK || (result == MSGQ_TIMEOUT && timeouts[index] == 100));
  }
  CHECK(atomic_load(&stub.calls) > 0);
  static const char *const ids[] = { "a", "b", "c" };
  for (size_t index = 0; index < 3; index++) {
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, ids[index]));
    explain(&scene, ids[index]);
  }
  state_of(&scene);
  stub.retry_after_ms = INT64_MIN;
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) > 1);
  static const int64_t times[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
  for (size_t index = 0; index < 25; index++) {
    CHECK_RESULT(MSGQ_OK, msgq_relative_time(times[index / 5], times[index % 5], text, SIZE_MAX));
  }
  CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, INT64_MAX));
  scene.queue = NULL;
  scene.options.rate_per_second = 5e-324;
  scene.options.rate_burst = 1;
  stub_open(&stub, &scene);
  put(&scene, "d", "dan", "hello");
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&scene, "d"));
  options.timeout_ms = 20;
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(scene.queue, &options, &report));
  explain(&scene, "d");
  state_of(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, INT64_MIN));
  scene.queue = NULL;
  scene_end(&scene);
}
