/*
 * A real HTTP/1.1 receiver on 127.0.0.1: one thread, one request per connection, one after the other. It keeps what it
 * got, in order, and answers 200 unless told otherwise.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct receiver;

/* port 0: a free one. */
struct receiver *receiver_start(uint16_t port);
uint16_t receiver_port(const struct receiver *receiver);
/* Connections are refused from then on. Frees the receiver. */
void receiver_stop(struct receiver *receiver);

/* The next `times` requests with this id (NULL: any) get this status; retry_after may be NULL. */
void receiver_answer(struct receiver *receiver, const char *id, int status, int times, const char *retry_after);
/* Held: requests are read and counted, but get their answer only when let go. */
void receiver_hold(struct receiver *receiver, bool held);

/* Before the first request: so many are read before any of them is answered, as long as they come at once; and how many were there
   together at most, once the senders are done. */
void receiver_together(struct receiver *receiver, size_t count);
size_t receiver_most_together(struct receiver *receiver);

/* Requests with this id (NULL: all), and those of them that were answered with 2xx. */
size_t receiver_requests(struct receiver *receiver, const char *id);
size_t receiver_accepted(struct receiver *receiver, const char *id);
/* The ids of the accepted requests, in order, with a space between; of one conversation or (NULL) of all. */
void receiver_order(struct receiver *receiver, const char *conversation, char *text, size_t size);
/* The body of the last request with this id, as text. */
void receiver_body(struct receiver *receiver, const char *id, char *text, size_t size);

#endif
