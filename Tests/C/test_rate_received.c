/* The limit of the rate, as an HTTP receiver measures it by its own clock. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"

enum { most_requests = 2048 };

/* When the queue was opened, with an empty allowance, and when the first call could begin, by the receiver's clock. */
struct beginning {
  double opened, released;
};

/*
 * Checks every window of what the receiver measured. A thread may run late at any time, so that requests arrive later than they were sent,
 * and closer together: the times of arrival alone prove nothing. These bounds hold nevertheless, without a tolerance:
 *
 * - An attempt is charged before its call begins, and so before its request arrives: when m requests have arrived, m attempts had been
 *   charged.
 * - At most `calls` calls are in flight. So the n-th attempt was charged after n - calls answers had been written, each of which is noted
 *   before it is written; and no attempt was charged before `released`.
 *
 * All attempts from the n-th to the m-th were therefore charged between that answer and the m-th arrival, and the rate permits so many in
 * that time. With a batch in each request, one call is in flight.
 */
static void check_received(struct receiver *receiver, struct beginning begun, double rate, double burst, size_t calls) {
  static struct receiver_time times[most_requests];
  size_t count = receiver_times(receiver, times, most_requests);
  REQUIRE(count > 0 && count <= most_requests);
  for (size_t last = 0; last < count; last++) {
    double messages = 0;
    for (size_t first = last + 1; first-- > 0;) {
      double since = first < calls ? begun.released : times[first - calls].answered;
      messages += (double)times[first].messages;
      if (CHECK(messages <= rate * (times[last].arrived - since) + burst)) continue;
      printf("  requests %zu to %zu: %.0f messages in %.1f ms\n", first, last, messages, (times[last].arrived - since) * 1000);
      return;
    }
    if (!CHECK(messages <= rate * (times[last].arrived - begun.opened))) return;
  }
}

static void begin(struct post *post, double rate, uint32_t burst, uint32_t slots) {
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_AUTO;
  post->scene.options.direct = true;
  post->scene.options.online_debounce_ms = 0;
  post->scene.options.rate_per_second = rate;
  post->scene.options.rate_burst = burst;
  post->scene.options.max_in_flight = slots;
  /* A call that hangs would not count among those in flight. */
  post->scene.options.attempt_timeout_ms = 600000;
  post->scene.options.on_demand_timeout_ms = 600000;
}

/* Every kind of attempt: the backlog, direct ones, retries by timer, by hand and of all, send now, drains. */
TEST_LONG(F3_a_receiver_measures_no_window_over_the_rate_whatever_starts_the_attempts) {
  enum { slots = 4, on_demand = 4, backlog = 60, direct = 60 };
  /* Of the 20 messages that are refused for now, a few may be the same one again: none uses up its retries. */
  static const int64_t ladder[] = { 10, 10, 10, 10, 10, 10 };
  struct post post;
  char id[16], conversation[16];
  begin(&post, 400, 10, slots);
  set_ladder(&post.scene, ladder, 6);
  receiver_answer(post.receiver, NULL, 503, 20, NULL);
  receiver_answer(post.receiver, "m3", 400, 1, NULL);
  receiver_answer(post.receiver, "m7", 400, 1, NULL);
  receiver_delay(post.receiver, 16, 50); /* meanwhile the allowance fills up */
  struct beginning begun = { .opened = receiver_now() };
  post_open(&post);
  set_offline(&post.scene);
  for (int number = 0; number < backlog; number++) {
    snprintf(id, sizeof id, "m%d", number);
    snprintf(conversation, sizeof conversation, "c%d", number % 12);
    put(&post.scene, id, conversation, "hello");
  }
  begun.released = receiver_now();
  set_online(&post.scene);
  for (int number = 0; number < direct; number++) {
    snprintf(id, sizeof id, "d%d", number);
    put(&post.scene, id, id, "hello");
  }
  msgq_result result = msgq_send_now(post.scene.queue, "m59");
  CHECK(result == MSGQ_OK || result == MSGQ_BUSY || result == MSGQ_CONFLICT);
  drain(&post.scene);
  AWAIT(status_of(&post.scene, "m3") == MSGQ_STATUS_FAILED && status_of(&post.scene, "m7") == MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_retry(post.scene.queue, "m3"));
  REQUIRE_OK(msgq_retry_all(post.scene.queue, NULL, NULL));
  AWAIT(counts_of(&post.scene, NULL).sent == backlog + direct);
  CHECK(receiver_requests(post.receiver, NULL) >= backlog + direct + 22);
  check_received(post.receiver, begun, 400, 10, slots + on_demand);
  post_end(&post);
}

/* The allowance grows while the bodies of a batch are read, and is full after each late answer. */
TEST_LONG(F3_B1_a_receiver_measures_no_window_over_the_rate_in_batches) {
  enum { messages = 500, body_size = 32768 };
  static char body[body_size];
  static msgq_draft drafts[messages];
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  struct post post;
  begin(&post, 2000, 40, 1);
  post.scene.options.mode = MSGQ_MODE_MANUAL;
  post.scene.options.direct = false;
  receiver_delay(post.receiver, 3, 120);
  memset(body, 'b', sizeof body);
  struct beginning begun = { .opened = receiver_now() };
  scene_open(&post.scene);
  for (int number = 0; number < messages; number++) {
    drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[number].conversation = "ana";
    drafts[number].body = body;
    drafts[number].body_size = sizeof body;
  }
  REQUIRE_OK(msgq_enqueue_batch(post.scene.queue, drafts, messages, NULL));
  options.max_messages = 1000;
  options.max_bytes = 1 << 28;
  REQUIRE_OK(msgq_set_batch_transport(post.scene.queue, sender_send_batch, &post.sender, sender_release, &options));
  begun.released = receiver_now();
  CHECK_NUMBER(messages, drain(&post.scene).sent);
  CHECK(receiver_requests(post.receiver, NULL) >= messages / 40);
  check_received(post.receiver, begun, 2000, 40, 1);
  post_end(&post);
}
