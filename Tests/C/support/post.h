/* A scene with an HTTP receiver and a transport to it. */
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

/* Begins the scene and starts the receiver. The queue is not open yet, so that options can be set. */
void post_begin(struct post *post);
/* Opens the queue and sets the transport. */
void post_open(struct post *post);
/* post_begin and post_open. */
void post_begin_open(struct post *post);
void post_end(struct post *post);

#endif
