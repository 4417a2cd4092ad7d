/* A host that loads the library by name and unloads it while a queue is open, as plug-ins do. Nothing may crash. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "msgqueue.h"

/* Looks up a function by name. The pointer is copied as bytes, because ISO C permits no cast from object to function pointers. */
#define FIND(function, name)                                    \
  do {                                                          \
    void *found = dlsym(library, name);                         \
    if (found == NULL) return fprintf(stderr, "%s\n", name), 1; \
    memcpy(&(function), &found, sizeof found);                  \
  } while (0)

int main(int count, char **arguments) {
  char directory[] = "/tmp/msgq-XXXXXX", path[64];
  if (count != 2 || mkdtemp(directory) == NULL) return 2;
  snprintf(path, sizeof path, "%s/outbox.db", directory);
  for (int time = 0; time < 3; time++) {
    msgq_result (*open)(const char *, const msgq_options *, msgq_queue **) = NULL;
    msgq_result (*enqueue)(msgq_queue *, const msgq_draft *, char[MSGQ_ID_SIZE]) = NULL;
    msgq_result (*close)(msgq_queue *, int64_t) = NULL;
    msgq_queue *queue = NULL;
    msgq_draft draft = MSGQ_DRAFT_INIT;
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    FIND(open, "msgq_open");
    FIND(enqueue, "msgq_enqueue");
    FIND(close, "msgq_close");
    if (open(path, NULL, &queue) != MSGQ_OK || enqueue(queue, &draft, NULL) != MSGQ_OK) return 1;
    /* In every second round the queue stays open while the library is unloaded. */
    if (time % 2 == 0 && close(queue, -1) != MSGQ_OK) return 1;
    if (dlclose(library) != 0) return 1;
    usleep(20000); /* the threads of the library continue */
    if (time % 2 == 1 && close(queue, -1) != MSGQ_OK) return 1;
  }
  unlink(path);
  return rmdir(directory);
}
