// The header must compile as C++17, and its functions must have C linkage.
#include <cstddef>

#include "msgqueue.h"

int main() {
    msgq_options options = MSGQ_OPTIONS_INIT;
    msgq_draft draft = MSGQ_DRAFT_INIT;
    msgq_filter filter = MSGQ_FILTER_INIT;
    msgq_outcome outcome = MSGQ_OUTCOME_INIT;
    msgq_report report = MSGQ_REPORT_INIT;
    msgq_drain_options drain_options = MSGQ_DRAIN_OPTIONS_INIT;
    msgq_counts counts = MSGQ_COUNTS_INIT;
    msgq_state state = MSGQ_STATE_INIT;
    std::size_t sizes = options.struct_size + draft.struct_size + filter.struct_size + outcome.struct_size +
                        report.struct_size + drain_options.struct_size + counts.struct_size + state.struct_size + state.prompt.struct_size;
    return sizes > 0 && msgq_version_number() == MSGQ_VERSION_NUMBER ? 0 : 1;
}
