/* Networks of a test in its own namespace, and a queue that monitors them. */
#ifndef NET_H
#define NET_H

#include <stdbool.h>

#include "scene.h"

/* Runs a shell command with this format. The test ends when the command fails. */
void net_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs a shell command without output. Returns whether it succeeded. */
bool net_try(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Creates a pair of links, `name` and `name`-peer, both up, with an IPv4 network 10.0.N.0/24 and no default route. */
void net_pair(const char *name, int number);

/* Opens a queue in mode auto. */
void net_begin(struct scene *scene);
/* The same, with a network "va" that has a default route, and waits until the queue is online. */
void net_begin_online(struct scene *scene);
/* Returns whether the last connectivity event has these values. */
bool net_is(struct scene *scene, msgq_connectivity connectivity, msgq_link link);
/* Wait for that event. */
#define AWAIT_OFFLINE(scene) AWAIT(net_is((scene), MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE))
#define AWAIT_ONLINE(scene, link) AWAIT(net_is((scene), MSGQ_CONNECTIVITY_ONLINE, (link)))
/* Returns whether the last connectivity event keeps these values for 100 ms. */
bool net_stays(struct scene *scene, msgq_connectivity connectivity, msgq_link link);

#endif
