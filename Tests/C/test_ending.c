#include "tests.h"
const struct check_test ending_tests[] = { ROWS_END };
