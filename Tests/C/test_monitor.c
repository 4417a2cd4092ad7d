#include "tests.h"
const struct check_test monitor_tests[] = { ROWS_END };
