/* A queue whose transport is bindings/c/http.c, and a server that does what the path of the URL says (server.py). */
#ifndef SITE_H
#define SITE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bindings/c/http.h"
#include "scene.h"

struct server {
  pid_t pid;
  int input; /* the server ends when this is closed */
  int plain, closing, silent, refusing, proxy, secure, mutual; /* ports */
};

struct site {
  struct scene scene; /* mode manual without retries */
  struct server server;
  char url[16384];
  msgq_http_options http;
  atomic_int released;
};

/* Starts the server with its log in the file `log`. */
void server_begin(struct server *server, const char *log);
void server_end(struct server *server);

/* Starts the server and opens the queue, without a transport. */
void site_begin(struct site *site);
/* Makes the directory and starts the server; the options of the queue can be changed before site_open. */
void site_prepare(struct site *site);
void site_open(struct site *site);
/* site_begin with so many attempts in flight. */
void site_begin_wide(struct site *site, uint32_t max_in_flight);
/* Opens the queue again after it was closed. */
void site_reopen(struct site *site);
/* Closes the queue and ends the server. */
void site_end(struct site *site);

/* Set the transport with site->http and a URL of the plain port, or of another one. */
void site_use(struct site *site, const char *path);
void site_use_port(struct site *site, const char *scheme, int port, const char *path);

/* Counts the lines of the server's log that contain `text`. */
int site_count(struct site *site, const char *text);

/* The last attempt of a message. */
struct attempt {
  msgq_attempt_outcome outcome;
  msgq_failure_kind kind;
  int32_t code;
  msgq_arrival arrival;
  size_t count;
  char text[512];
};
struct attempt attempt_of(struct site *site, const char *id);

/* Sends one message with a new id to a path and returns its only attempt; its status becomes `status`. */
struct attempt site_try(struct site *site, const char *path, msgq_status *status);

/* Enqueues with a body of any bytes and metadata. */
void site_put(struct site *site, const char *id, const void *body, size_t size, const msgq_pair *metadata, size_t count);

#endif
