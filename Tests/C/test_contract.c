/* Version, result names and defaults, without a queue. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scene.h"

TEST(contract_version_matches_the_header) {
  char expected[32];
  snprintf(expected, sizeof expected, "%d.%d.%d", MSGQ_VERSION_MAJOR, MSGQ_VERSION_MINOR, MSGQ_VERSION_PATCH);
  CHECK_TEXT(expected, msgq_version());
  CHECK_NUMBER(MSGQ_VERSION_NUMBER, msgq_version_number());
}

TEST(I1_the_version_of_sqlite_is_known_without_a_queue_and_in_the_state) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_state state = MSGQ_STATE_INIT;
  unsigned major, minor, patch;
  char end;
  CHECK_NUMBER(3, sscanf(msgq_sqlite_version(), "%u.%u.%u%c", &major, &minor, &patch, &end));
  CHECK(major == 3);
  /* The tests use the same SQLite: that of the system. */
  CHECK_TEXT(sqlite3_libversion(), msgq_sqlite_version());
  REQUIRE_OK(msgq_get_state(scene.queue, &state));
  CHECK_TEXT(msgq_sqlite_version(), state.sqlite_version);
  scene_end(&scene);
}

TEST(contract_result_names) {
  static const char *const names[] = {
    "MSGQ_OK",     "MSGQ_INVALID", "MSGQ_NOT_FOUND", "MSGQ_DUPLICATE", "MSGQ_CONFLICT", "MSGQ_BUSY",       "MSGQ_FULL",
    "MSGQ_TOO_LARGE", "MSGQ_LOCKED", "MSGQ_CLOSED",  "MSGQ_FORKED",    "MSGQ_CORRUPT",  "MSGQ_STORAGE",    "MSGQ_UNKNOWN",
    "MSGQ_TOO_NEW",   "MSGQ_PERMISSION", "MSGQ_TIMEOUT", "MSGQ_NO_TRANSPORT", "MSGQ_INTERNAL",
  };
  CHECK_NUMBER(MSGQ_INTERNAL + 1, sizeof names / sizeof names[0]);
  for (int result = 0; result <= (int)MSGQ_INTERNAL; result++) CHECK_TEXT(names[result], msgq_result_name((msgq_result)result));
  CHECK_TEXT("MSGQ_?", msgq_result_name((msgq_result)(MSGQ_INTERNAL + 1)));
  CHECK_TEXT("MSGQ_?", msgq_result_name((msgq_result)2147483647));
}

static void *detail_of_a_new_thread(void *context) {
  char *detail = context;
  snprintf(detail, 64, "%s", msgq_error_detail());
  return NULL;
}

TEST(contract_error_detail_is_per_thread) {
  char other[64] = "not asked";
  pthread_t thread;
  CHECK_RESULT(MSGQ_INVALID, msgq_open(NULL, NULL, NULL));
  CHECK(strlen(msgq_error_detail()) > 10);
  REQUIRE(pthread_create(&thread, NULL, detail_of_a_new_thread, other) == 0);
  pthread_join(thread, NULL);
  CHECK_TEXT("", other);
}

TEST(contract_options_macro_and_function_agree) {
  msgq_options macro = MSGQ_OPTIONS_INIT;
  msgq_options function;
  memset(&function, 0xa5, sizeof function);
  msgq_options_init(&function);
  msgq_options_init(NULL);
#define SAME(field) CHECK(macro.field == function.field)
  SAME(struct_size);
  SAME(mode);
  SAME(callbacks);
  SAME(backoff);
  SAME(exhausted);
  SAME(final_failure);
  SAME(strict_order);
  SAME(pause_on_unauthorized);
  SAME(unmetered_only);
  SAME(send_in_background);
  SAME(direct);
  SAME(hold_interrupted);
  SAME(durable_outcomes);
  SAME(conflict_is_sent);
  SAME(read_only);
  SAME(refuse_lost_tail);
  SAME(live_share);
  SAME(soonest_expiry_first);
  SAME(maintenance);
  SAME(max_in_flight);
  SAME(max_retries);
  SAME(ladder_ms);
  SAME(ladder_count);
  SAME(backoff_base_ms);
  SAME(backoff_factor);
  SAME(backoff_cap_ms);
  SAME(jitter);
  SAME(attempt_timeout_ms);
  SAME(on_demand_timeout_ms);
  SAME(prompt_timeout_ms);
  SAME(online_debounce_ms);
  SAME(drain_batch);
  SAME(trigger_interval_ms);
  SAME(expiry_ms);
  SAME(keep_sent);
  SAME(keep_sent_ms);
  SAME(remember_ids_ms);
  SAME(limit_messages);
  SAME(limit_bytes);
  SAME(limit_body);
  SAME(limit_metadata);
  SAME(refused);
  SAME(on_full);
  SAME(limit_file_bytes);
  SAME(rate_per_second);
  SAME(rate_burst);
  SAME(ramp_up_ms);
  SAME(initial_connectivity);
  SAME(prompt_for_failed);
  SAME(wait_ms);
  SAME(collect_interval_ms);
  SAME(keep_changes);
#undef SAME
}

TEST(contract_defaults_are_as_documented) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  CHECK_NUMBER(sizeof options, options.struct_size);
  CHECK(options.mode == MSGQ_MODE_AUTO && options.callbacks == MSGQ_CALLBACKS_THREAD && options.backoff == MSGQ_BACKOFF_AUTOMATIC);
  CHECK(options.exhausted == MSGQ_EXHAUSTED_KEEP && options.direct && !options.hold_interrupted && !options.durable_outcomes);
  CHECK(options.max_in_flight == 1 && options.max_retries == 5 && options.ladder_ms == NULL && options.ladder_count == 0);
  CHECK(options.backoff_base_ms == 5000 && options.backoff_factor == 2.0 && options.backoff_cap_ms == 0 && options.jitter == 0.0);
  CHECK(options.attempt_timeout_ms == 30000 && options.on_demand_timeout_ms == 3000 && options.prompt_timeout_ms == 10000);
  CHECK(options.online_debounce_ms == 500 && options.drain_batch == 0 && options.limit_messages == 0 && options.limit_bytes == 0);
  CHECK(options.final_failure == MSGQ_FINAL_STEP_ASIDE && options.strict_order && !options.pause_on_unauthorized);
  CHECK(!options.unmetered_only && !options.send_in_background && options.trigger_interval_ms == 0 && options.expiry_ms == 0);
  CHECK_NUMBER(10000, options.keep_sent);
  CHECK_NUMBER(30 * INT64_C(86400000), options.keep_sent_ms);
  CHECK_NUMBER(7 * INT64_C(86400000), options.remember_ids_ms);
  CHECK(!options.conflict_is_sent && !options.read_only && !options.refuse_lost_tail && options.refused == MSGQ_REFUSED_KEEP);
  CHECK(options.on_full == MSGQ_ON_FULL_REFUSE && options.limit_file_bytes == 0);
  CHECK(options.live_share == 0.5 && !options.soonest_expiry_first && !options.maintenance && !options.prompt_for_failed);
  CHECK_NUMBER(0, options.wait_ms);
  CHECK_NUMBER(5000, options.collect_interval_ms);
  CHECK_NUMBER(0, options.keep_changes);
  CHECK(options.limit_body == 1048576 && options.limit_metadata == 65536);
  CHECK(options.rate_per_second == 0.0 && options.rate_burst == 0 && options.ramp_up_ms == 0);
}

TEST(contract_init_macros_set_struct_size_and_defaults) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options drain_options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  CHECK_NUMBER(sizeof explanation, explanation.struct_size);
  CHECK(!outcome.retry_after_queue && outcome.retry_after[0] == '\0' && outcome.text[0] == '\0');
  CHECK_NUMBER(sizeof draft, draft.struct_size);
  CHECK_NUMBER(sizeof filter, filter.struct_size);
  CHECK_NUMBER(sizeof outcome, outcome.struct_size);
  CHECK_NUMBER(sizeof report, report.struct_size);
  CHECK_NUMBER(sizeof drain_options, drain_options.struct_size);
  CHECK_NUMBER(sizeof counts, counts.struct_size);
  CHECK_NUMBER(50, filter.limit);
  CHECK_NUMBER(-1, outcome.retry_after_ms);
  CHECK_NUMBER(-1, drain_options.timeout_ms);
}
