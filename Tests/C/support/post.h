/* A scene with a receiver and an HTTP transport to it. */
#ifndef POST_H
#define POST_H

#include "receiver.h"
#include "scene.h"
#include "sender.h"

struct post {
  struct scene scene;
  struct sender sender;
  struct receiver *receiver;
};

/* The scene and the receiver; the queue is not open, so that options can be set. */
void post_begin(struct post *post);
/* Opens the queue and sets the transport. */
void post_open(struct post *post);
/* Both. */
void post_begin_open(struct post *post);
void post_end(struct post *post);

#endif
