#include "post.h"

void post_begin(struct post *post) {
  scene_begin(&post->scene);
  post->receiver = receiver_start(0);
  sender_begin(&post->sender, receiver_port(post->receiver));
}

void post_open(struct post *post) {
  scene_open(&post->scene);
  REQUIRE_OK(msgq_set_transport(post->scene.queue, sender_send, &post->sender, sender_release));
}

void post_begin_open(struct post *post) {
  post_begin(post);
  post_open(post);
}

void post_end(struct post *post) {
  scene_end(&post->scene);
  receiver_stop(post->receiver);
}
