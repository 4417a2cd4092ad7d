#include "tests.h"
const struct check_test fork_tests[] = { ROWS_END };
