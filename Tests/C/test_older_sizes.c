/* Structs of an older, smaller version. They end at the end of a page, and the next page permits no access. */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "scene.h"
#include "stub.h"

struct edge {
  char *pages;
  size_t page;
};

static void edge_begin(struct edge *edge) {
  edge->page = (size_t)sysconf(_SC_PAGESIZE);
  edge->pages = mmap(NULL, 2 * edge->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(edge->pages != MAP_FAILED);
  REQUIRE(mprotect(edge->pages + edge->page, edge->page, PROT_NONE) == 0);
}

static void edge_end(struct edge *edge) { munmap(edge->pages, 2 * edge->page); }

/* Copies the first `size` bytes of a struct to the end of the page and sets its struct_size. */
static void *cut(struct edge *edge, const void *whole, size_t size) {
  uint32_t known = (uint32_t)size;
  char *place = edge->pages + edge->page - size;
  memcpy(place, whole, size);
  memcpy(place, &known, sizeof known);
  return place;
}

TEST(older_options_use_the_defaults_for_missing_fields) {
  struct edge edge;
  struct scene scene;
  msgq_queue *queue = NULL;
  msgq_state state = MSGQ_STATE_INIT;
  edge_begin(&edge);
  scene_begin(&scene);
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  const size_t step = 8 * (size_t)check_times(1, 8);
  for (size_t size = 8; size < sizeof options; size += step) {
    REQUIRE_OK(msgq_open(scene.path, cut(&edge, &options, size), &queue));
    CHECK_RESULT(MSGQ_OK, msgq_get_state(queue, &state));
    CHECK_NUMBER(MSGQ_MODE_MANUAL, state.mode);
    char large[2000] = "";
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.body = large;
    draft.body_size = sizeof large;
    CHECK_RESULT(MSGQ_OK, msgq_enqueue(queue, &draft, NULL)); /* limit_body, which may be missing, is 1 MiB by default */
    CHECK_RESULT(MSGQ_OK, msgq_close(queue, 0));
  }
  CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, cut(&edge, &options, 12), &queue)); /* no field ends at this size */
  scene_end(&scene);
  edge_end(&edge);
}

TEST(older_drafts_filters_and_drain_options_are_accepted) {
  struct edge edge;
  struct scene scene;
  struct stub stub;
  msgq_page *list = NULL;
  edge_begin(&edge);
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.body = "hello";
  draft.body_size = 5;
  size_t body_end = offsetof(msgq_draft, body_size) + sizeof draft.body_size;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene.queue, cut(&edge, &draft, body_end), NULL));
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_batch(scene.queue, cut(&edge, &draft, body_end), 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, cut(&edge, &draft, offsetof(msgq_draft, body_size)), NULL));
  msgq_draft common = MSGQ_DRAFT_INIT;
  common.conversation = "ben";
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_bodies(scene.queue, cut(&edge, &common, body_end), "ab", 2, (size_t[]) { 2 }, 1, NULL));
  CHECK_NUMBER(2, counts_of(&scene, "ana").queued);
  CHECK_NUMBER(1, counts_of(&scene, "ben").queued);

  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.conversation = "ana";
  REQUIRE_OK(msgq_list(scene.queue, cut(&edge, &filter, offsetof(msgq_filter, conversation) + sizeof(char *)), &list));
  CHECK_NUMBER(2, msgq_list_size(list));
  msgq_list_free(list);

  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.batch = 1;
  msgq_report report = MSGQ_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, cut(&edge, &options, 8), &report)); /* no timeout, all conversations */
  CHECK_NUMBER(1, report.sent);
  scene_end(&scene);
  edge_end(&edge);
}

TEST(older_output_structs_are_written_up_to_their_size) {
  struct edge edge;
  struct scene scene;
  edge_begin(&edge);
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_counts *few = cut(&edge, &counts, offsetof(msgq_counts, sending));
  CHECK_RESULT(MSGQ_OK, msgq_count(scene.queue, NULL, few));
  CHECK_NUMBER(1, few->queued);
  CHECK_NUMBER(offsetof(msgq_counts, sending), few->struct_size);

  msgq_state state = MSGQ_STATE_INIT;
  uint32_t size = (uint32_t)(offsetof(msgq_state, mode) + 8) / 8 * 8;
  CHECK_RESULT(MSGQ_OK, msgq_get_state(scene.queue, cut(&edge, &state, size)));

  msgq_statistics statistics = { .struct_size = 0 };
  msgq_statistics *first = cut(&edge, &statistics, offsetof(msgq_statistics, attempts));
  CHECK_RESULT(MSGQ_OK, msgq_stats(scene.queue, first));
  CHECK_NUMBER(1, first->enqueued);

  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  msgq_explanation *reason = cut(&edge, &explanation, offsetof(msgq_explanation, until_ms));
  CHECK_RESULT(MSGQ_OK, msgq_explain(scene.queue, "a", reason));
  CHECK_NUMBER(MSGQ_REASON_NO_TRANSPORT, reason->reason);
  scene_end(&scene);
  edge_end(&edge);
}

TEST(contract_init_functions_agree_with_the_macros) {
#define AGREES(type, macro, init)                        \
  do {                                                   \
    static const type expected = macro;                  \
    type made;                                           \
    memset(&made, 0, sizeof made);                       \
    init;                                                \
    CHECK(memcmp(&made, &expected, sizeof made) == 0);   \
  } while (0)
  AGREES(msgq_draft, MSGQ_DRAFT_INIT, msgq_draft_init(&made));
  AGREES(msgq_filter, MSGQ_FILTER_INIT, msgq_filter_init(&made));
  AGREES(msgq_outcome, MSGQ_OUTCOME_INIT, msgq_outcome_init(&made));
  AGREES(msgq_drain_options, MSGQ_DRAIN_OPTIONS_INIT, msgq_drain_options_init(&made));
  msgq_draft_init(NULL);
  msgq_filter_init(NULL);
  msgq_outcome_init(NULL);
  msgq_drain_options_init(NULL);
}
