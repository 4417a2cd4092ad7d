/*
 * The time of bindings/c/http.c against libcurl alone: 20,000 messages, 64 in flight, and a server that answers each request
 * after 5 ms. Both post the same bodies with the same headers on kept connections, in one process, in interleaved rounds.
 *
 *   http-bench ROUNDS [MESSAGES [IN_FLIGHT [DELAY_MS]]]
 *
 * The messages are enqueued before the time begins; it ends when the engine has recorded the last one as sent. The processor time of
 * the queue includes enqueueing.
 */
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../bindings/c/http.h"

static int messages = 20000, in_flight = 64, delay_ms = 5;

static void check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s failed: %s\n", what, msgq_error_detail());
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1000 + (double)time.tv_nsec / 1e6;
}

/* The processor time of this process. */
static double used(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* -------------------------------------------------------------- the server: one request is one segment */

struct due {
  double at;
  int peer;
};

static _Noreturn void serve(int listener) {
  static struct due waiting[65536];
  static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  static char pending[65536];
  unsigned first = 0, end = 0;
  int loop = epoll_create1(0);
  struct epoll_event interest = { .events = EPOLLIN, .data.fd = listener };
  check(epoll_ctl(loop, EPOLL_CTL_ADD, listener, &interest) == 0, "epoll");
  for (;;) {
    struct epoll_event events[256];
    struct timespec wait = { 1, 0 };
    if (first != end) {
      double left = waiting[first % 65536].at - now();
      wait.tv_sec = 0;
      wait.tv_nsec = left > 0 ? (long)(left * 1e6) : 0;
    }
    int count = epoll_pwait2(loop, events, 256, &wait, NULL);
    for (int index = 0; index < count; index++) {
      int peer = events[index].data.fd;
      if (peer == listener) {
        int one = 1;
        if ((peer = accept(listener, NULL, NULL)) < 0) continue;
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        interest.data.fd = peer;
        epoll_ctl(loop, EPOLL_CTL_ADD, peer, &interest);
        continue;
      }
      char bytes[4096];
      ssize_t size = read(peer, bytes, sizeof bytes);
      if (size <= 0) {
        close(peer);
        continue;
      }
      pending[peer % 65536] = 1;
      waiting[end++ % 65536] = (struct due){ now() + delay_ms, peer };
    }
    for (; first != end && waiting[first % 65536].at <= now(); first++) {
      int peer = waiting[first % 65536].peer;
      if (pending[peer % 65536] && write(peer, answer, sizeof answer - 1) < 0) close(peer);
      pending[peer % 65536] = 0;
    }
  }
}

/* -------------------------------------------------------------- the two clients */

static double by_queue(const char *url) {
  char directory[] = "/tmp/msgq-bench-XXXXXX", path[64], command[96];
  check(mkdtemp(directory) != NULL, "mkdtemp");
  snprintf(path, sizeof path, "%s/outbox.db", directory);
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.max_in_flight = (uint32_t)in_flight;
  msgq_queue *queue;
  check(msgq_open(path, &options, &queue) == MSGQ_OK, "open");
  for (int number = 0; number < messages; number += 1000) {
    msgq_draft drafts[1000];
    char names[1000][16];
    int count = messages - number < 1000 ? messages - number : 1000;
    for (int index = 0; index < count; index++) {
      snprintf(names[index], sizeof names[index], "c%d", (number + index) % (2 * in_flight));
      drafts[index] = (msgq_draft){ .struct_size = sizeof drafts[0], .conversation = names[index], .body = "hello", .body_size = 5 };
    }
    check(msgq_enqueue_batch(queue, drafts, (size_t)count, NULL) == MSGQ_OK, "enqueue");
  }
  msgq_http_options http = MSGQ_HTTP_OPTIONS_INIT;
  http.url = url;
  msgq_report report = MSGQ_REPORT_INIT;
  double start = now();
  check(msgq_http_set_transport(queue, &http) == MSGQ_OK, "transport");
  check(msgq_drain(queue, NULL, &report) == MSGQ_OK, "drain");
  double took = now() - start;
  check(report.sent == (uint64_t)messages, "sending");
  check(msgq_close(queue, 5000) == MSGQ_OK, "close");
  snprintf(command, sizeof command, "rm -r %s", directory);
  check(system(command) == 0, "rm");
  return took;
}

static size_t ignore(char *bytes, size_t one, size_t size, void *context) {
  (void)bytes, (void)context;
  return one * size;
}

static void post(CURLM *multi, CURL *easy, struct curl_slist **headers, int number) {
  char key[64];
  snprintf(key, sizeof key, "Idempotency-Key: \"0190d3a1-0000-7000-8000-%012d\"", number);
  curl_slist_free_all(*headers);
  *headers = curl_slist_append(curl_slist_append(NULL, key), "Content-Type: application/octet-stream");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
  check(curl_multi_add_handle(multi, easy) == CURLM_OK, "curl_multi_add_handle");
}

static double by_curl(const char *url) {
  struct curl_slist **headers = calloc((size_t)in_flight, sizeof *headers);
  CURL **easy = calloc((size_t)in_flight, sizeof *easy);
  double start = now();
  CURLM *multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)in_flight);
  int begun = 0, done = 0;
  for (int index = 0; index < in_flight; index++) {
    easy[index] = curl_easy_init();
    curl_easy_setopt(easy[index], CURLOPT_URL, url);
    curl_easy_setopt(easy[index], CURLOPT_POSTFIELDS, "hello");
    curl_easy_setopt(easy[index], CURLOPT_POSTFIELDSIZE, 5L);
    curl_easy_setopt(easy[index], CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy[index], CURLOPT_PRIVATE, (char *)&headers[index]);
    curl_easy_setopt(easy[index], CURLOPT_NOSIGNAL, 1L);
    if (begun < messages) post(multi, easy[index], &headers[index], begun++);
  }
  while (done < messages) {
    int running, left;
    check(curl_multi_perform(multi, &running) == CURLM_OK, "curl_multi_perform");
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left)) != NULL;) {
      CURL *ended = message->easy_handle;
      long status = 0;
      char *place = NULL;
      curl_easy_getinfo(ended, CURLINFO_RESPONSE_CODE, &status);
      curl_easy_getinfo(ended, CURLINFO_PRIVATE, &place);
      check(message->data.result == CURLE_OK && status == 200, "libcurl");
      curl_multi_remove_handle(multi, ended);
      done++;
      if (begun < messages) post(multi, ended, (struct curl_slist **)(void *)place, begun++);
    }
    check(curl_multi_poll(multi, NULL, 0, 1000, NULL) == CURLM_OK, "curl_multi_poll");
  }
  double took = now() - start;
  for (int index = 0; index < in_flight; index++) curl_easy_cleanup(easy[index]), curl_slist_free_all(headers[index]);
  curl_multi_cleanup(multi);
  free(headers);
  free(easy);
  return took;
}

static int compare(const void *one, const void *other) {
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

int main(int count, char **arguments) {
  int rounds = count > 1 ? atoi(arguments[1]) : 3;
  if (count > 2) messages = atoi(arguments[2]);
  if (count > 3) in_flight = atoi(arguments[3]);
  if (count > 4) delay_ms = atoi(arguments[4]);
  if (rounds < 1 || rounds > 100 || messages < 1 || in_flight < 1 || in_flight > 64 || delay_ms < 0) return 2;

  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  socklen_t size = sizeof address;
  check(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1024) == 0, "listen");
  check(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
  pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(listener);
  }
  check(server > 0, "fork");
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
  curl_global_init(CURL_GLOBAL_DEFAULT);

  double ratios[100];
  printf("%d messages, %d in flight, answers after %d ms\n", messages, in_flight, delay_ms);
  for (int round = 0; round < rounds; round++) {
    double times[2], processor[2];
    for (int turn = 0; turn < 2; turn++) {
      int which = (turn + round) % 2;
      double before = used();
      times[which] = which == 0 ? by_queue(url) : by_curl(url);
      processor[which] = used() - before;
    }
    ratios[round] = times[0] / times[1];
    printf("queue %6.0f ms (processor %5.0f ms)   libcurl alone %6.0f ms (processor %5.0f ms)   ratio %.3f\n", times[0], processor[0],
           times[1], processor[1], ratios[round]);
    fflush(stdout);
  }
  qsort(ratios, (size_t)rounds, sizeof ratios[0], compare);
  printf("median ratio %.3f\n", ratios[rounds / 2]);
  kill(server, SIGKILL);
  waitpid(server, NULL, 0);
  return 0;
}
