/* The groups of tests, one for each file test_*.c. */
#ifndef TESTS_H
#define TESTS_H

#include "check.h"

extern const struct check_test contract_tests[];
extern const struct check_test lifecycle_tests[];
extern const struct check_test message_tests[];
extern const struct check_test list_tests[];
extern const struct check_test limit_tests[];
extern const struct check_test sending_tests[];
extern const struct check_test answer_tests[];
extern const struct check_test order_tests[];
extern const struct check_test retry_tests[];
extern const struct check_test refused_tests[];
extern const struct check_test again_tests[];
extern const struct check_test part_tests[];
extern const struct check_test schedule_tests[];
extern const struct check_test async_tests[];
extern const struct check_test callback_tests[];
extern const struct check_test poll_tests[];
extern const struct check_test connectivity_tests[];
extern const struct check_test crash_tests[];
extern const struct check_test word_tests[];
extern const struct check_test prompt_tests[];
extern const struct check_test state_tests[];
extern const struct check_test history_tests[];
extern const struct check_test receipt_tests[];
extern const struct check_test long_tests[];
extern const struct check_test figure_tests[];
extern const struct check_test trigger_tests[];
extern const struct check_test rule_tests[];
extern const struct check_test time_tests[];
extern const struct check_test explain_tests[];
extern const struct check_test meanwhile_tests[];
extern const struct check_test statistics_tests[];
extern const struct check_test bad_call_tests[];
extern const struct check_test bad_value_tests[];
extern const struct check_test bad_size_tests[];
extern const struct check_test older_size_tests[];
extern const struct check_test bad_place_tests[];
extern const struct check_test host_tests[];
extern const struct check_test async_drain_tests[];
extern const struct check_test thread_tests[];
extern const struct check_test hang_tests[];
extern const struct check_test closing_tests[];
extern const struct check_test close_async_tests[];
extern const struct check_test ending_tests[];
extern const struct check_test fork_tests[];
extern const struct check_test idle_tests[];
extern const struct check_test rest_tests[];
extern const struct check_test clock_tests[];
extern const struct check_test many_hung_tests[];
extern const struct check_test monitor_tests[];
extern const struct check_test example_tests[];
extern const struct check_test monitor_storm_tests[];
extern const struct check_test log_tests[];
extern const struct check_test owner_tests[];
extern const struct check_test refusal_tests[];
extern const struct check_test log_tie_tests[];
extern const struct check_test flush_tests[];
extern const struct check_test lost_tail_tests[];
extern const struct check_test full_disk_tests[];
extern const struct check_test damage_tests[];
extern const struct check_test damaged_count_tests[];
extern const struct check_test odd_file_tests[];
extern const struct check_test restore_tests[];
extern const struct check_test layout_tests[];
extern const struct check_test salvage_tests[];
extern const struct check_test read_only_tests[];

#endif
