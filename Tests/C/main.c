/* Runs the tests: all, or those whose name contains the first argument. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "place.h"
#include "tests.h"

int main(int count, char **arguments) {
  static const struct check_test *const groups[] = {
    contract_tests, lifecycle_tests, message_tests, list_tests, limit_tests, sending_tests, answer_tests,
    order_tests, retry_tests, again_tests, part_tests, refused_tests, schedule_tests, async_tests, callback_tests, poll_tests,
    connectivity_tests, crash_tests, word_tests, prompt_tests, state_tests, history_tests, receipt_tests, long_tests, figure_tests,
    trigger_tests, rule_tests, time_tests,
    explain_tests, meanwhile_tests, statistics_tests, bad_call_tests, bad_value_tests, bad_size_tests, older_size_tests,
    bad_place_tests, host_tests, async_drain_tests, thread_tests, hang_tests, many_hung_tests, closing_tests, close_async_tests, ending_tests, fork_tests,
    idle_tests, rest_tests, clock_tests, monitor_tests, monitor_storm_tests, example_tests, log_tests,
    owner_tests, refusal_tests, log_tie_tests, flush_tests, lost_tail_tests, full_disk_tests, damage_tests, damaged_count_tests,
    odd_file_tests, restore_tests, layout_tests,
    salvage_tests, read_only_tests,
  };
  const size_t group_count = sizeof groups / sizeof groups[0];
  child_program = arguments[0];
  if (count == 5 && strcmp(arguments[1], "--child") == 0) return child_role(arguments[2], arguments[3], arguments[4]);
  if (count == 4 && strcmp(arguments[1], "--place") == 0) {
    return place_enter(arguments[2]) ? check_run_here(groups, group_count, arguments[3]) : check_skipped_code;
  }
  return check_run(groups, group_count, count > 1 ? arguments[1] : NULL);
}
