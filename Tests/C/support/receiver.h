/*
 * An HTTP/1.1 receiver on 127.0.0.1: one thread, one request per connection, one after the other. It stores the requests
 * in order and answers 200 unless receiver_answer set another status.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct receiver;

/* Starts a receiver; port 0: any free port. */
struct receiver *receiver_start(uint16_t port);
uint16_t receiver_port(const struct receiver *receiver);
/* Stops the receiver and frees it. From then on connections are refused. */
void receiver_stop(struct receiver *receiver);

/* Answers the next `times` requests with this id (NULL: any) with this status; retry_after may be NULL. */
void receiver_answer(struct receiver *receiver, const char *id, int status, int times, const char *retry_after);
/* While held, requests are read and counted, but not answered. */
void receiver_hold(struct receiver *receiver, bool held);

/* Call before the first request: up to `count` requests that arrive together are read before any of them is answered.
   receiver_most_together returns the largest such number; call it when all senders are done. */
void receiver_together(struct receiver *receiver, size_t count);
size_t receiver_most_together(struct receiver *receiver);

/* Call before the first request: the answers to every `every`-th request are sent `delay_ms` later. */
void receiver_delay(struct receiver *receiver, size_t every, int64_t delay_ms);

/* One request as the receiver measured it, in seconds of its clock, CLOCK_BOOTTIME. */
struct receiver_time {
  double arrived;  /* when all of it had been read */
  double answered; /* before its answer was written; 0: not yet */
  size_t messages; /* the header `Messages`; 1 without it */
};
/* Copies the first `room` of them, in order of arrival, and returns how many there are. */
size_t receiver_times(struct receiver *receiver, struct receiver_time *times, size_t room);
/* The clock. */
double receiver_now(void);

/* Return the number of requests with this id (NULL: all), and of those that were answered with 2xx. */
size_t receiver_requests(struct receiver *receiver, const char *id);
size_t receiver_accepted(struct receiver *receiver, const char *id);
/* Writes the ids of the accepted requests in order, separated by spaces; of one conversation or (NULL) of all. */
void receiver_order(struct receiver *receiver, const char *conversation, char *text, size_t size);
/* Writes the body of the last request with this id as text. */
void receiver_body(struct receiver *receiver, const char *id, char *text, size_t size);

#endif
