#if !__has_include(<curl/curl.h>)
#error "MsgQueueHTTP needs the header of libcurl: apt install libcurl4-openssl-dev"
#endif
#include <curl/curl.h>
#include <stdint.h>

/* Swift cannot call variadic functions. */
static inline CURLcode ccurl_set_number(CURL *transfer, CURLoption option, int64_t value) {
  return option >= CURLOPTTYPE_OFF_T ? curl_easy_setopt(transfer, option, (curl_off_t)value)
                                     : curl_easy_setopt(transfer, option, (long)value);
}

static inline CURLcode ccurl_set_text(CURL *transfer, CURLoption option, const char *value) {
  return curl_easy_setopt(transfer, option, value);
}

static inline CURLcode ccurl_set_pointer(CURL *transfer, CURLoption option, const void *value) {
  return curl_easy_setopt(transfer, option, value);
}

/* For CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION. */
static inline CURLcode ccurl_set_receiver(CURL *transfer, CURLoption option, size_t (*receiver)(char *, size_t, size_t, void *)) {
  return curl_easy_setopt(transfer, option, receiver);
}

/* Returns a number about a transfer; 0 if libcurl does not know it. */
static inline long ccurl_get_number(CURL *transfer, CURLINFO info) {
  long value = 0;
  return curl_easy_getinfo(transfer, info, &value) == CURLE_OK ? value : 0;
}

/* A macro that Swift cannot read. */
static const int64_t ccurl_basic = (int64_t)CURLAUTH_BASIC;

/* Whether the handshake of TLS is complete. */
static inline int ccurl_has_handshaken(CURL *transfer) {
  curl_off_t time = 0;
  return curl_easy_getinfo(transfer, CURLINFO_APPCONNECT_TIME_T, &time) == CURLE_OK && time > 0;
}

/* Returns the next transfer that has ended, and why; NULL: none. */
static inline CURL *ccurl_next_ended(CURLM *transfers, CURLcode *code) {
  int left = 0;
  for (CURLMsg *message = NULL; (message = curl_multi_info_read(transfers, &left)) != NULL;) {
    if (message->msg != CURLMSG_DONE) continue;
    *code = message->data.result;
    return message->easy_handle;
  }
  return NULL;
}

/* The resolver's thread is not waited for when a transfer is cancelled. libcurl knows the option since 7.87. */
static inline void ccurl_set_quick_exit(CURL *transfer) { (void)curl_easy_setopt(transfer, (CURLoption)322, 1L); }
