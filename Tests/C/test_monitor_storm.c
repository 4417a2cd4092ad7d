#include "tests.h"
const struct check_test monitor_storm_tests[] = { ROWS_END };
