/*
 * A transport for libmsgqueue that posts each message to an HTTP server, with libcurl (7.81 or
 * later). It is source: compile http.c (C11) with your program. When it is installed:

     sources=$(pkg-config --variable=sources msgqueue)
     cc -I$sources outbox.c $sources/http.c $(pkg-config --cflags --libs msgqueue libcurl) -pthread

 * The rules at the beginning of msgqueue.h (results, structs, strings) hold here, too.
 */
#ifndef MSGQUEUE_HTTP_H
#define MSGQUEUE_HTTP_H

#include <msgqueue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the longest bearer token, with its NUL. */
#define MSGQ_HTTP_TOKEN_SIZE 8192

/*
 * Writes a bearer token with its NUL to `token`, which has MSGQ_HTTP_TOKEN_SIZE bytes, and returns
 * true; false when there is none. `refused` is NULL, or the token that the server refused with 401:
 * the new one must differ. A token has visible ASCII characters.
 *
 * It is called on the thread that sends: no request makes progress until it returns. It may call
 * every function of the queue except msgq_close. msgq_close waits for it, also beyond its time-out.
 */
typedef bool (*msgq_http_token_fn)(void *context, const char *refused, char *token, size_t size);

/* The comment of each field begins with its default; "(0)" after it says that 0 stands for it. */
typedef struct msgq_http_options {
  uint32_t struct_size;
  /* 64 (0). Connections at one time: 1 to 1000. Requests beyond wait for one. How many requests
     there are at one time, max_in_flight of the queue decides; its default is 1. */
  uint32_t max_connections;
  /* Required. http or https, of visible ASCII characters, without user name and fragment. Its path
     and query are used as they are. */
  const char *url;
  /* application/octet-stream (NULL). The header Content-Type. */
  const char *content_type;
  /* None. Headers that are sent with every message, at most 64: a name of HTTP's token characters,
     a value without control characters but tab. Not those that the transport sets: Connection,
     Content-Length, Content-Type, Expect, Host, Idempotency-Key, Traceparent, Tracestate,
     Transfer-Encoding; with `token` also Authorization. Copied. */
  const msgq_pair *headers;
  size_t header_count;
  /* The time-out of the attempt (0). The whole request takes at most this: 1 ms to 1 day. A longer
     time than that of the attempt has no effect. */
  int64_t timeout_ms;
  /* The certificates of the system (NULL). A readable regular file with at least one "BEGIN
     CERTIFICATE" of PEM. Certificates and host names are always verified. */
  const char *ca_file;
  /* None. Gives the token for "Authorization: Bearer …"; see below. */
  msgq_http_token_fn token;
  void *context;
  /* None. release(context) is called once, when the transport has ended and does not use libcurl
     any more; also when msgq_http_set_transport fails, unless struct_size is not possible. */
  void (*release)(void *context);
  /* None. http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, of visible ASCII characters; others
     in USER and PASSWORD are percent-encoded. Copied. See "Proxy" below. */
  const char *proxy;
  /* None. The certificate of the client for https, with its chain: a readable regular file of PEM.
     libcurl reads it, and the key, for each connection. */
  const char *certificate_file;
  /* certificate_file (NULL). Its private key, a readable regular file of PEM. */
  const char *key_file;
  /* None. The password of the key. Copied. */
  const char *key_password;
  /* False. An answer 401 holds the queue; see "Credentials" below. True: it is for the engine, as
     other statuses: final, kind unauthorized, or with pause_on_unauthorized a pause of the queue. A
     token that is missing is such a failure, too. */
  bool unauthorized_is_final;
} msgq_http_options;

#define MSGQ_HTTP_OPTIONS_INIT \
  { sizeof(msgq_http_options), 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, \
    NULL, NULL, false }

/*
 * Sets a transport that posts the body of each message to options->url, in place of any transport
 * of the queue. Remove it with msgq_set_transport(queue, NULL, NULL, NULL), or close the queue.
 *
 * Request    POST with the header Idempotency-Key: the id of the message as a string of RFC 9651
 *            ("…" with \" and \\ escaped), or if it has characters outside ASCII, as a display
 *            string (%"…"). The metadata `traceparent` and `tracestate` are sent as headers when
 *            they are valid by W3C Trace Context; other metadata are not sent. HTTP/1.1.
 *            Connections are kept alive and reused; one that has anything to read before a request
 *            is written (an end, or bytes that no request asked for) is closed, and the request
 *            goes on a new one. HTTP/1.1 does not name the request of an answer: an answer without
 *            a request that arrives after this check, or that TLS has decrypted with the end of
 *            the answer before, is taken for the answer to the request. Redirects are not followed.
 *            Proxies of the environment, .netrc and cookies are not used. libcurl does not repeat a
 *            request of which a part was sent.
 * Answer     The engine decides by the status and Retry-After, as with MSGQ_VERDICT_HTTP; a
 *            redirect is an unknown status and retried. Up to 99 answers with a status 1xx other
 *            than 101 are skipped. The text has the status and 200 bytes of the answer. At most
 *            1 MiB of an answer is read.
 * Proxy      To a server of https the proxy passes a connection on (CONNECT); it reads no request.
 *            To a server of http it forwards the request.
 * Failures   offline (uses up no retry): no connection, name not found, no route; the proxy answers
 *            407, or another status than 2xx to CONNECT; the certificate of the client cannot be
 *            used (a wrong password, another key). Of a server of http, the other answers of a
 *            proxy cannot be told from those of the server, and count as these.
 *            retry, surely not sent: TLS or certificate (kind network); time-out before the first
 *            byte of the request was written (timeout).
 *            retry, perhaps arrived: a connection that breaks later (network); no answer in time
 *            (timeout); an answer that is not HTTP, that changes the protocol (101), that has an
 *            invalid Content-Length or two different ones, more than 99 answers with a status 1xx
 *            before it, a header line that is too long for libcurl (100 KiB), or more than 256 KiB
 *            of header lines, those of answers with a status 1xx included (server); one that is cut
 *            in its header, or in its body when its status would be final and is not 2xx (network).
 * Credentials
 *            An answer 401 is a fault of no message: the outcome is offline, with the text
 *            "HOST:PORT answered 401". The queue is held, no message uses up a retry or fails, and
 *            the state, msgq_explain and the log have the text (msgq_set_connectivity_reason). The
 *            engine tries again every 5 s; meanwhile messages that it attempts nevertheless get the
 *            same outcome, and at most one request a second is made. 403 is about a message.
 *            With options->token every request has a token. It is asked for once and used until
 *            the server answers 401; then a new one is asked for, and the request is sent again in
 *            the same attempt, once. There being no token means the same as 401.
 * Threads    Two threads of the transport: one sends all requests, the other completes the attempts
 *            with msgq_complete_batch. They block all signals. Any thread may call this function.
 * Closing    msgq_close waits for requests in flight until its time-out, then aborts the rest;
 *            these attempts are "outcome unknown" after the next open. The threads have ended when
 *            msgq_close returns. When another transport is set or this one is removed, requests in
 *            flight are completed first; the threads end after that.
 * Fork       The child has no threads and sends nothing; its copies of the sockets are closed when
 *            it exits or calls exec.
 * libcurl    The first call in the process calls curl_global_init(CURL_GLOBAL_DEFAULT) and nothing
 *            calls curl_global_cleanup. Before libcurl 7.84 curl_global_init is not thread-safe: a
 *            program that uses libcurl itself then calls it before it starts threads.
 *
 * Errors: INVALID (also: a field is out of its range), PERMISSION (read_only), STORAGE (no memory,
 * thread or descriptor left). msgq_http_error_detail says more.
 */
msgq_result msgq_http_set_transport(msgq_queue *queue, const msgq_http_options *options);

/* One sentence about this thread's last failed msgq_http_set_transport; "" before the first.
   Borrowed: valid until this thread's next failing call. */
const char *msgq_http_error_detail(void);

#ifdef __cplusplus
}
#endif

#endif /* MSGQUEUE_HTTP_H */
