#include "answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void answers_begin(struct answers *answers, msgq_queue *queue) {
  memset(answers, 0, sizeof *answers);
  answers->queue = queue;
  pthread_mutex_init(&answers->lock, NULL);
  pthread_cond_init(&answers->changed, NULL);
}

void answers_end(struct answers *answers) {
  pthread_cond_destroy(&answers->changed);
  pthread_mutex_destroy(&answers->lock);
}

msgq_verdict answers_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct answers *answers = context;
  int conversation = 0, number = 0;
  (void)out;
  pthread_mutex_lock(&answers->lock);
  answers->calls++;
  if (sscanf(delivery->id, "c%d-%d", &conversation, &number) != 2 || answers->next[conversation % 1024]++ != number) answers->disorder++;
  for (size_t index = 0; index < answers->open; index++) {
    if (strcmp(answers->names[index], delivery->conversation) == 0) answers->overlaps++;
  }
  if (answers->open == answers_room) abort();
  snprintf(answers->names[answers->open], sizeof answers->names[0], "%s", delivery->conversation);
  answers->tokens[answers->open++] = delivery->token;
  if (answers->open > answers->most_open) answers->most_open = answers->open;
  pthread_cond_broadcast(&answers->changed);
  pthread_mutex_unlock(&answers->lock);
  return MSGQ_VERDICT_PENDING;
}

size_t answers_open(struct answers *answers) {
  pthread_mutex_lock(&answers->lock);
  size_t open = answers->open;
  pthread_mutex_unlock(&answers->lock);
  return open;
}

struct second {
  msgq_queue *queue;
  uint64_t token;
  msgq_result result;
};

static msgq_result answer(msgq_queue *queue, uint64_t token) {
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = MSGQ_VERDICT_SENT;
  return msgq_complete(queue, token, &outcome);
}

static void *answer_second(void *context) {
  struct second *second = context;
  second->result = answer(second->queue, second->token);
  return NULL;
}

static void note(struct answers *answers, msgq_result result) {
  if (result == MSGQ_OK) answers->accepted++;
  else if (result == MSGQ_CONFLICT) answers->refused++;
  else answers->unexpected++;
}

/* Takes the token in the middle, so that the order of the answers differs from the order of the calls. */
static uint64_t take(struct answers *answers) {
  size_t place = answers->open / 2;
  uint64_t token = answers->tokens[place];
  answers->open--;
  memmove(answers->tokens + place, answers->tokens + place + 1, (answers->open - place) * sizeof answers->tokens[0]);
  memmove(answers->names + place, answers->names + place + 1, (answers->open - place) * sizeof answers->names[0]);
  return token;
}

static void *serve(void *context) {
  struct answers *answers = context;
  pthread_mutex_lock(&answers->lock);
  while (answers->wanted > 0) {
    if (answers->open == 0) {
      pthread_cond_wait(&answers->changed, &answers->lock);
      continue;
    }
    struct second second = { answers->queue, take(answers), MSGQ_CONFLICT };
    pthread_t thread;
    if (--answers->wanted == 0) pthread_cond_broadcast(&answers->changed);
    pthread_mutex_unlock(&answers->lock);
    bool both = answers->twice && pthread_create(&thread, NULL, answer_second, &second) == 0;
    msgq_result result = answer(answers->queue, second.token);
    if (both) pthread_join(thread, NULL);
    pthread_mutex_lock(&answers->lock);
    note(answers, result);
    if (both) note(answers, second.result);
  }
  pthread_mutex_unlock(&answers->lock);
  return NULL;
}

void answers_serve(struct answers *answers, int threads, unsigned total) {
  pthread_t handles[16];
  answers->wanted = total;
  for (int index = 0; index < threads; index++) REQUIRE(pthread_create(&handles[index], NULL, serve, answers) == 0);
  for (int index = 0; index < threads; index++) pthread_join(handles[index], NULL);
}
