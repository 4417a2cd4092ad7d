/* I3: the control socket. A running queue answers the other programs of its owner, and nobody else. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "process.h"
#include "scene.h"
#include "stub.h"

/* Connects to a socket. Returns -1 when nobody listens. */
static int connected(const char *path) {
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval limit = { check_timeout_ms() / 1000, 0 };
  REQUIRE(peer >= 0 && strlen(path) < sizeof address.sun_path);
  strcpy(address.sun_path, path);
  if (connect(peer, (struct sockaddr *)&address, sizeof address) != 0) {
    close(peer);
    return -1;
  }
  setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return peer;
}

/* Reads one line without its end, byte by byte. Returns false at the end of the connection. */
static bool line_of(int peer, char *text, size_t size) {
  size_t length = 0;
  char byte;
  for (;;) {
    ssize_t count = recv(peer, &byte, 1, 0);
    if (count != 1) return false;
    if (byte == '\n') break;
    if (length + 1 < size) text[length++] = byte;
  }
  text[length] = 0;
  return true;
}

static bool say(int peer, const char *text) {
  size_t left = strlen(text);
  while (left > 0) {
    ssize_t count = send(peer, text, left, MSG_NOSIGNAL);
    if (count <= 0) return false;
    text += count;
    left -= (size_t)count;
  }
  return true;
}

/* Connects and reads the greeting. */
static int greeted(const char *path) {
  char line[1024];
  int peer = connected(path);
  REQUIRE(peer >= 0);
  REQUIRE(line_of(peer, line, sizeof line));
  CHECK(strstr(line, "\"protocol\":1") != NULL);
  return peer;
}

/* Sends a request and compares its answer. */
static void answers(int peer, const char *request, const char *expected) {
  char line[8192] = "";
  REQUIRE(say(peer, request) && say(peer, "\n"));
  REQUIRE(line_of(peer, line, sizeof line));
  CHECK_TEXT(expected, line);
}

static const char *control_of(struct scene *scene) { return scene_file(scene, "store.db-control"); }

/* The path of the socket of the scene's store. */
static const char *default_path(const struct scene *scene) {
  static char path[128];
  snprintf(path, sizeof path, "%s-control", scene->path);
  return path;
}

/* Opens a queue with its control socket, and connects to it. */
static int open_and_connect(struct scene *scene) {
  scene_begin_open(scene);
  REQUIRE_OK(msgq_control_start(scene->queue, NULL));
  return greeted(default_path(scene));
}

TEST(I3_the_control_socket_answers_a_program) {
  struct scene scene;
  struct stub stub;
  struct stat status;
  char line[4096];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  set_online(&scene);
  REQUIRE_OK(msgq_control_start(scene.queue, NULL));
  const char *path = default_path(&scene);
  CHECK(stat(path, &status) == 0 && S_ISSOCK(status.st_mode) && (status.st_mode & 0777) == 0600);
  int peer = greeted(path);
  answers(peer, "{\"id\":1,\"call\":\"enqueue\",\"message\":\"m\",\"conversation\":\"ana\",\"body\":\"hello\"}",
          "{\"id\":1,\"result\":{\"message\":\"m\"}}");
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "m"));
  answers(peer, "{\"id\":\"x\",\"call\":\"banner\"}", "{\"id\":\"x\",\"result\":{\"text\":\"1 message queued.\"}}");
  answers(peer, "{\"id\":2,\"call\":\"drain\"}",
          "{\"id\":2,\"result\":{\"stop\":\"empty\",\"sent\":1,\"failed\":0,\"discarded\":0,\"remaining\":0,"
          "\"remaining_failed\":0,\"put_back\":0}}");
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "m"));
  answers(peer, "{\"id\":3,\"call\":\"counts\"}",
          "{\"id\":3,\"result\":{\"queued\":0,\"sending\":0,\"sent\":1,\"delivered\":0,\"read\":0,\"failed\":0,"
          "\"received\":0,\"unread\":0,\"unsent_bytes\":0}}");
  answers(peer, "{\"id\":4,\"call\":\"retry\",\"message\":\"none\"}",
          "{\"id\":4,\"error\":{\"code\":\"NOT_FOUND\",\"text\":\"message not found: none\"}}");
  answers(peer, "{\"id\":5,\"call\":\"fly\"}", "{\"id\":5,\"error\":{\"code\":\"INVALID\",\"text\":\"unknown call: fly\"}}");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_control_start(scene.queue, NULL));
  REQUIRE_OK(msgq_control_stop(scene.queue));
  CHECK(!line_of(peer, line, sizeof line));
  CHECK(access(path, F_OK) != 0);
  close(peer);
  CHECK_RESULT(MSGQ_OK, msgq_control_stop(scene.queue));
  scene_end(&scene);
}

TEST(I3_a_close_ends_the_control_socket_and_its_threads) {
  struct scene scene;
  char line[4096];
  size_t threads = process_library_threads(), descriptors = process_descriptors();
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_control_start(scene.queue, control_of(&scene)));
  int peers[8];
  for (size_t index = 0; index < 8; index++) peers[index] = greeted(control_of(&scene));
  REQUIRE(say(peers[0], "{\"id\":1,\"call\":"));
  scene_close(&scene);
  for (size_t index = 0; index < 8; index++) {
    CHECK(!line_of(peers[index], line, sizeof line));
    close(peers[index]);
  }
  CHECK(connected(control_of(&scene)) < 0);
  AWAIT(process_library_threads() <= threads);
  CHECK(process_descriptors() <= descriptors);
  scene_end(&scene);
}

TEST(I3_wrong_arguments_of_the_control_socket) {
  struct scene scene;
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_control_start(NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_control_stop(NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_control_start(scene.queue, ""));
  CHECK_RESULT(MSGQ_INVALID, msgq_control_start(scene.queue, "\xff"));
  CHECK_RESULT(MSGQ_INVALID, msgq_control_start(scene.queue, scene_file(&scene, "missing/socket")));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_control_start(scene.queue, scene.path));
  CHECK_RESULT(MSGQ_INVALID, msgq_control_start(scene.queue, "/"));
  msgq_queue *closed = scene.queue;
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_control_start(closed, NULL));
  CHECK_RESULT(MSGQ_CLOSED, msgq_control_stop(closed));
  scene_end(&scene);
}

TEST(I3_another_user_is_refused) {
  struct scene scene;
  char line[1024];
  if (geteuid() != 0) SKIP("only root can become another user");
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_control_start(scene.queue, NULL));
  REQUIRE(chmod(scene.directory, 0711) == 0);
  for (int open = 0; open < 2; open++) {
    /* The second time the mode of the file lets everybody in, so that the check of the peer decides. */
    if (open) REQUIRE(chmod(default_path(&scene), 0666) == 0);
    pid_t child = child_fork();
    if (child == 0) {
      CHECK(setgid(65534) == 0 && setuid(65534) == 0);
      int peer = connected(default_path(&scene));
      CHECK(open ? peer >= 0 : peer < 0);
      if (peer >= 0) {
        CHECK(line_of(peer, line, sizeof line) && strstr(line, "PERMISSION") != NULL);
        CHECK(!line_of(peer, line, sizeof line));
      }
      child_end();
    }
    child_await(child);
  }
  int peer = greeted(default_path(&scene));
  answers(peer, "{\"id\":1,\"call\":\"ping\"}", "{\"id\":1,\"result\":{}}");
  close(peer);
  scene_end(&scene);
}

TEST(I3_a_forked_child_holds_no_connection) {
  struct scene scene;
  char line[1024];
  int peer = open_and_connect(&scene);
  int gate[2];
  REQUIRE(pipe(gate) == 0);
  pid_t child = child_fork();
  if (child == 0) {
    char byte;
    close(gate[1]);
    close(peer);
    CHECK_RESULT(MSGQ_FORKED, msgq_control_stop(scene.queue));
    (void)!read(gate[0], &byte, 1);
    child_end();
  }
  close(gate[0]);
  answers(peer, "{\"id\":1,\"call\":\"ping\"}", "{\"id\":1,\"result\":{}}");
  scene_close(&scene);
  CHECK(!line_of(peer, line, sizeof line));
  CHECK(connected(default_path(&scene)) < 0);
  close(peer);
  scene_open(&scene);
  REQUIRE_OK(msgq_control_start(scene.queue, NULL));
  close(greeted(default_path(&scene)));
  close(gate[1]);
  child_await(child);
  scene_end(&scene);
}

TEST(I3_a_thousand_connections_and_a_line_of_10_MB) {
  struct scene scene;
  char line[4096];
  int peer = open_and_connect(&scene);
  for (int count = 0; count < 1000; count++) {
    int other = connected(default_path(&scene));
    if (other < 0) continue;
    if (count % 3 == 0) (void)say(other, "{\"id\":1,");
    if (count % 3 == 1) (void)line_of(other, line, sizeof line);
    close(other);
  }
  answers(peer, "{\"id\":1,\"call\":\"ping\"}", "{\"id\":1,\"result\":{}}");
  int large = -1;
  AWAIT(large >= 0 || ((large = connected(default_path(&scene))) >= 0 && line_of(large, line, sizeof line) &&
                       (strstr(line, "protocol") != NULL || (close(large), large = -1, false))));
  char *text = malloc(10000001);
  REQUIRE(text != NULL);
  memset(text, 'x', 10000000);
  text[10000000] = 0;
  if (say(large, text) && line_of(large, line, sizeof line)) CHECK(strstr(line, "TOO_LARGE") != NULL);
  free(text);
  close(large);
  answers(peer, "{\"id\":2,\"call\":\"ping\"}", "{\"id\":2,\"result\":{}}");
  close(peer);
  scene_end(&scene);
}

TEST(I3_a_hung_transport_does_not_stop_the_control_socket) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  set_online(&scene);
  atomic_store(&stub.held, true);
  put(&scene, "a", "ana", "x");
  REQUIRE_OK(msgq_control_start(scene.queue, NULL));
  int peer = greeted(default_path(&scene));
  REQUIRE(say(peer, "{\"id\":1,\"call\":\"drain\"}\n"));
  AWAIT(atomic_load(&stub.inside) == 1);
  char line[4096];
  REQUIRE(say(peer, "{\"id\":2,\"call\":\"delete\",\"message\":\"a\"}\n") && line_of(peer, line, sizeof line));
  CHECK(strstr(line, "\"code\":\"BUSY\"") != NULL);
  answers(peer, "{\"id\":3,\"call\":\"ping\"}", "{\"id\":3,\"result\":{}}");
  atomic_store(&stub.held, false);
  REQUIRE(line_of(peer, line, sizeof line));
  CHECK(strstr(line, "{\"id\":1,\"result\":{\"stop\":\"empty\",\"sent\":1") == line);
  close(peer);
  scene_end(&scene);
}

/* Sends random bytes, and requests of which some bytes are changed, in pieces of random size. The server answers or disconnects,
   and goes on. */
TEST(I3_random_and_changed_requests_stop_nothing) {
  static const char *const requests[] = {
    "{\"id\":1,\"call\":\"list\",\"statuses\":[\"queued\",\"sent\"],\"limit\":5,\"bodies\":true}\n",
    "{\"id\":\"a\\u00e4\\ud83d\\ude00\",\"call\":\"enqueue\",\"conversation\":\"c\",\"body_base64\":\"/w==\",\"metadata\":{\"k\":\"v\"}}\n",
    "{\"id\":2,\"call\":\"explain\",\"message\":\"m\"}\n{\"id\":3,\"call\":\"state\"}\n",
    "{\"id\":4,\"call\":\"edit\",\"message\":\"m\",\"body\":\"x\\n\"}\n",
    "{\"id\":5,\"call\":\"drain\",\"batch\":1,\"timeout_ms\":1}\n{\"id\":6,\"call\":\"subscribe\"}\n",
    "{\"id\":7,\"call\":\"conversations\",\"before\":9223372036854775807}\n{\"id\":8,\"call\":\"check\"}\n",
  };
  struct scene scene;
  struct stub stub;
  unsigned seed = 13;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  set_online(&scene);
  put(&scene, "m", "c", "x");
  REQUIRE_OK(msgq_control_start(scene.queue, NULL));
  for (int round = 0; round < check_times(600, 30); round++) {
    char text[4096];
    int size = 0;
    int peer = connected(default_path(&scene));
    REQUIRE(peer >= 0);
    int parts = 1 + rand_r(&seed) % 4;
    for (int part = 0; part < parts; part++) {
      if (rand_r(&seed) % 4 == 0) {
        int count = rand_r(&seed) % 200;
        for (int index = 0; index < count; index++) text[size++] = (char)rand_r(&seed);
      } else {
        const char *request = requests[(size_t)rand_r(&seed) % (sizeof requests / sizeof *requests)];
        int length = (int)strlen(request);
        memcpy(text + size, request, (size_t)length);
        for (int changes = rand_r(&seed) % 3; changes > 0; changes--) text[size + rand_r(&seed) % length] = (char)rand_r(&seed);
        size += length - (rand_r(&seed) % 8 == 0 ? rand_r(&seed) % length : 0);
      }
    }
    for (int sent = 0; sent < size;) {
      int piece = 1 + rand_r(&seed) % 300;
      ssize_t count = send(peer, text + sent, (size_t)(piece < size - sent ? piece : size - sent), MSG_NOSIGNAL);
      if (count <= 0) break;
      sent += (int)count;
    }
    if (rand_r(&seed) % 2 == 0) {
      shutdown(peer, SHUT_WR);
      for (int reads = rand_r(&seed) % 8; reads > 0 && recv(peer, text, sizeof text, MSG_DONTWAIT) != 0; reads--) {}
    }
    close(peer);
  }
  int peer = -1;
  char line[4096];
  AWAIT(peer >= 0 || ((peer = connected(default_path(&scene))) >= 0 && line_of(peer, line, sizeof line) &&
                      (strstr(line, "protocol") != NULL || (close(peer), peer = -1, false))));
  answers(peer, "{\"id\":1,\"call\":\"ping\"}", "{\"id\":1,\"result\":{}}");
  close(peer);
  scene_end(&scene);
}

/* Requests per second of one client; printed with MSGQ_TEST_FIGURES. */
TEST(I3_requests_per_second) {
  struct scene scene;
  char line[4096];
  int peer = open_and_connect(&scene);
  FILE *input = fdopen(dup(peer), "r");
  REQUIRE(input != NULL);
  const char *calls[] = { "{\"id\":1,\"call\":\"ping\"}\n", "{\"id\":1,\"call\":\"state\"}\n",
                          "{\"id\":1,\"call\":\"enqueue\",\"body\":\"hello\"}\n" };
  int times = check_times(500, 20);
  for (size_t call = 0; call < 3; call++) {
    int64_t begun = steady_ms();
    for (int count = 0; count < times; count++) {
      REQUIRE(say(peer, calls[call]));
      REQUIRE(fgets(line, sizeof line, input) != NULL);
      CHECK(strstr(line, "\"result\"") != NULL);
    }
    int64_t passed = steady_ms() - begun;
    if (getenv("MSGQ_TEST_FIGURES") != NULL)
      fprintf(stderr, "%.40s %lld requests per second\n", calls[call], (long long)(times * 1000LL / (passed > 0 ? passed : 1)));
  }
  fclose(input);
  close(peer);
  scene_end(&scene);
}
