/* Networks made for a test, in a namespace of its own, and a queue that hears of them. */
#ifndef NET_H
#define NET_H

#include <stdbool.h>

#include "scene.h"

/* Runs a command of the shell with this format; the test ends when it fails. */
void net_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs it quietly; whether it worked. */
bool net_try(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A pair of links, `name` and `name`-peer, both up, and an IPv4 network 10.0.N.0/24 on them, without a route out. */
void net_pair(const char *name, int number);

/* A queue that sends by itself, as soon as the kernel says that it is online. */
void net_begin(struct scene *scene);
/* The same, with a network "va" that leads out, and the queue told of it. */
void net_begin_online(struct scene *scene);
/* What the queue was told last. */
bool net_is(struct scene *scene, msgq_connectivity connectivity, msgq_link link);
/* Waits for it. */
#define AWAIT_OFFLINE(scene) AWAIT(net_is((scene), MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE))
#define AWAIT_ONLINE(scene, link) AWAIT(net_is((scene), MSGQ_CONNECTIVITY_ONLINE, (link)))
/* Stays so for a moment. */
bool net_stays(struct scene *scene, msgq_connectivity connectivity, msgq_link link);

#endif
