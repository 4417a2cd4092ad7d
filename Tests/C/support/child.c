#include "child.h"

#include <dirent.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "role_exit.h"
#include "role_log.h"
#include "sender.h"

const char *child_program = "";

enum { nobody = 65534 };

struct child child_start(const char *role, const char *first, const char *second) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  struct child child = { fork(), ends[0] };
  REQUIRE(child.pid >= 0);
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with the test */
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(child_program, child_program, "--child", role, first, second, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  return child;
}

void child_line(struct child *child, char *text, size_t size) {
  size_t filled = 0;
  while (filled + 1 < size && read(child->output, text + filled, 1) == 1 && text[filled] != '\n') filled++;
  text[filled] = '\0';
}

int child_wait(struct child *child) {
  int status = 0;
  close(child->output);
  CHECK(waitpid(child->pid, &status, 0) == child->pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void child_kill(struct child *child) {
  CHECK(kill(child->pid, SIGKILL) == 0);
  CHECK_NUMBER(-1, child_wait(child));
}

pid_t child_fork(void) {
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)(check_timeout_ms() / 1000));
  }
  return pid;
}

void child_end(void) {
  const char *program = check_failures() == 0 ? "/bin/true" : "/bin/false";
  execl(program, program, (char *)NULL);
  _exit(127);
}

void child_await(pid_t child) {
  int status = -1;
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_NUMBER(0, status);
}

static _Noreturn void print_and_wait(const char *line) {
  printf("%s\n", line);
  fflush(stdout);
  for (;;) pause();
}

/* Opens the store and keeps it open. */
static int role_hold(const char *path) {
  msgq_queue *queue = NULL;
  if (msgq_open(path, NULL, &queue) != MSGQ_OK) return 1;
  print_and_wait("open");
}

/* Opens the store and prints the result. */
static int role_open(const char *path) {
  msgq_queue *queue = NULL;
  msgq_result result = msgq_open(path, NULL, &queue);
  printf("%s: %s\n", msgq_result_name(result), msgq_error_detail());
  fflush(stdout);
  if (result == MSGQ_OK) msgq_close(queue, 0);
  return (int)result;
}

/* Enqueues "m<first>" to "m<last>" and keeps the store open. */
static int role_write(const char *path, const char *range) {
  msgq_queue *queue = NULL;
  unsigned first = 0, last = 0;
  if (sscanf(range, "%u-%u", &first, &last) != 2) return 1;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  if (msgq_open(path, &options, &queue) != MSGQ_OK) {
    print_and_wait(msgq_error_detail());
  }
  for (unsigned number = first; number <= last; number++) {
    char id[16], body[32];
    snprintf(id, sizeof id, "m%u", number);
    snprintf(body, sizeof body, "body %u", number);
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.id = id;
    draft.conversation = "ana";
    draft.body = body;
    draft.body_size = strlen(body);
    if (msgq_enqueue(queue, &draft, NULL) != MSGQ_OK) print_and_wait(msgq_error_detail());
  }
  print_and_wait("written");
}

/* Opens and closes the store, and is killed before the n-th change of its files. Returns 0 when there were fewer changes. */
static int role_open_until(const char *path, const char *number) {
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.keep_sent_ms = -1;
  fault_change(path, atoi(number));
  msgq_result result = msgq_open(path, &options, &queue);
  if (result != MSGQ_OK) return (int)result;
  return (int)msgq_close(queue, 1000);
}

/* Opens the store, forks a child that outlives its parent, and prints the process id of the child. */
static int role_fork_and_hold(const char *path) {
  char line[32];
  msgq_queue *queue = NULL;
  if (msgq_open(path, NULL, &queue) != MSGQ_OK) return 1;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "a";
  if (msgq_enqueue(queue, &draft, NULL) != MSGQ_OK) return 2;
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    for (;;) pause();
  }
  snprintf(line, sizeof line, "%ld", (long)child);
  print_and_wait(line);
}

/* Reads the store with SQLite. The exit code is the result code of SQLite. */
static int role_read_by_sqlite(const char *path, const char *sql) {
  sqlite3 *store = NULL;
  int code = sqlite3_open(path, &store);
  if (code == SQLITE_OK) code = sqlite3_exec(store, sql, NULL, NULL, NULL);
  sqlite3_close(store);
  return code;
}

/* Enqueues without end. Prints each id only after msgq_enqueue returned MSGQ_OK. */
static int role_compose(const char *path) {
  msgq_queue *queue = NULL;
  if (msgq_open(path, NULL, &queue) != MSGQ_OK) return 1;
  for (unsigned number = 0;; number++) {
    char id[MSGQ_ID_SIZE];
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = number % 2 == 0 ? "even" : "odd";
    draft.body = &number;
    draft.body_size = sizeof number;
    if (msgq_enqueue(queue, &draft, id) != MSGQ_OK) return 2;
    printf("%s\n", id);
    fflush(stdout);
  }
}

/* Replaces one message without end. Prints each id only after msgq_enqueue returned MSGQ_OK. */
static int role_replace(const char *path) {
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  if (msgq_open(path, &options, &queue) != MSGQ_OK) return 1;
  for (unsigned number = 0;; number++) {
    char id[MSGQ_ID_SIZE], body[5000];
    memset(body, (int)('a' + number % 26), sizeof body);
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = "ana";
    draft.replace_key = "k";
    draft.body = body;
    draft.body_size = number % 3 == 0 ? sizeof body : 10;
    if (msgq_enqueue(queue, &draft, id) != MSGQ_OK) return 2;
    printf("%s\n", id);
    fflush(stdout);
  }
}

/* Drains everything to the receiver in mode manual, then keeps the store open. */
static int role_drain(const char *path, const char *port) {
  static struct sender sender;
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  sender_begin(&sender, (uint16_t)strtoul(port, NULL, 10));
  if (msgq_open(path, &options, &queue) != MSGQ_OK) return 1;
  if (msgq_set_transport(queue, sender_send, &sender, NULL) != MSGQ_OK) return 2;
  if (msgq_drain(queue, NULL, NULL) != MSGQ_OK) return 3;
  print_and_wait("drained");
}

/* Prints the ids of each call. A message whose body begins with "!" kills the process. */
static void send_or_die(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context;
  bool dies = false;
  for (size_t index = 0; index < count; index++) {
    printf("%s%s", index ? " " : "", deliveries[index].id);
    dies = dies || *(const char *)deliveries[index].body == '!';
    outcomes[index].verdict = MSGQ_VERDICT_SENT;
  }
  printf("\n");
  fflush(stdout);
  if (dies) raise(SIGKILL);
}

/* Drains everything through a batch transport, unless a message kills the process. */
static int role_send_or_die(const char *path) {
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  const msgq_batch_options batches = MSGQ_BATCH_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  if (msgq_open(path, &options, &queue) != MSGQ_OK) return 1;
  if (msgq_set_batch_transport(queue, send_or_die, NULL, NULL, &batches) != MSGQ_OK) return 2;
  if (msgq_drain(queue, NULL, NULL) != MSGQ_OK) return 3;
  return msgq_close(queue, 5000) == MSGQ_OK ? 0 : 4;
}

static msgq_draft draft_of(const char *id, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ana";
  draft.body = body;
  draft.body_size = strlen(body);
  return draft;
}

/* A conversation in both directions: one message received and read, one sent and delivered, one received, one queued. */
static int role_converse(const char *path, const char *port) {
  static struct sender sender;
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  sender_begin(&sender, (uint16_t)strtoul(port, NULL, 10));
  msgq_draft received = draft_of("theirs-1", "hello"), answer = draft_of("ours-1", "hi"), more = draft_of("theirs-2", "how are you?"),
             last = draft_of("ours-2", "waits");
  bool done = msgq_open(path, &options, &queue) == MSGQ_OK && msgq_set_transport(queue, sender_send, &sender, NULL) == MSGQ_OK &&
              msgq_record(queue, &received, "Ana", NULL) == MSGQ_OK && msgq_mark(queue, "theirs-1", MSGQ_STATUS_READ) == MSGQ_OK &&
              msgq_enqueue(queue, &answer, NULL) == MSGQ_OK && msgq_drain(queue, NULL, NULL) == MSGQ_OK &&
              msgq_mark(queue, "ours-1", MSGQ_STATUS_DELIVERED) == MSGQ_OK && msgq_record(queue, &more, "Ana", NULL) == MSGQ_OK &&
              msgq_enqueue(queue, &last, NULL) == MSGQ_OK;
  if (!done) return 1;
  print_and_wait("conversed");
}

/* Opens the store as a user other than root and prints the result. */
static int role_open_as_nobody(const char *path) {
  msgq_queue *queue = NULL;
  if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) return 125;
  msgq_result result = msgq_open(path, NULL, &queue);
  printf("%s: %s\n", msgq_result_name(result), msgq_error_detail());
  if (result == MSGQ_OK) msgq_close(queue, 0);
  return (int)result;
}

/* Opens the store for reading only (as user nobody if `user` is "nobody"), prints the number of queued messages, and keeps the store open. */
static int role_read(const char *path, const char *user) {
  msgq_queue *queue = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.read_only = true;
  char line[32];
  if (strcmp(user, "nobody") == 0 && geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) return 125;
  if (msgq_open(path, &options, &queue) != MSGQ_OK || msgq_count(queue, NULL, &counts) != MSGQ_OK) return 1;
  snprintf(line, sizeof line, "%u queued", (unsigned)counts.queued);
  print_and_wait(line);
}

/* Prints the targets of the open descriptors, except the standard streams and the directory of the list. */
static int role_descriptors(void) {
  DIR *directory = opendir("/proc/self/fd");
  if (directory == NULL) return 1;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char target[256];
    int number = atoi(entry->d_name);
    if (number <= STDERR_FILENO || number == dirfd(directory)) continue;
    ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
    if (length > 0) printf("%.*s\n", (int)length, target);
  }
  return closedir(directory) == 0 ? 0 : 1;
}

int child_role(const char *role, const char *first, const char *second) {
  if (strcmp(role, "hold") == 0) return role_hold(first);
  if (strcmp(role, "open") == 0) return role_open(first);
  if (strcmp(role, "write") == 0) return role_write(first, second);
  if (strcmp(role, "open-until") == 0) return role_open_until(first, second);
  if (strcmp(role, "fork-and-hold") == 0) return role_fork_and_hold(first);
  if (strcmp(role, "read-by-sqlite") == 0) return role_read_by_sqlite(first, second);
  if (strcmp(role, "compose") == 0) return role_compose(first);
  if (strcmp(role, "replace") == 0) return role_replace(first);
  if (strcmp(role, "drain") == 0) return role_drain(first, second);
  if (strcmp(role, "send-or-die") == 0) return role_send_or_die(first);
  if (strcmp(role, "converse") == 0) return role_converse(first, second);
  if (strcmp(role, "open-as-nobody") == 0) return role_open_as_nobody(first);
  if (strcmp(role, "read") == 0) return role_read(first, second);
  if (strcmp(role, "end-while-sending") == 0) return role_end_while_sending(first, second);
  if (strcmp(role, "log") == 0) return role_log(first, second);
  if (strcmp(role, "descriptors") == 0) return role_descriptors();
  return 126;
}
