/* The network monitor (H8): what counts as online, and with which link type. Each test has its own network namespace. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check.h"
#include "net.h"
#include "process.h"
#include "stub.h"

TEST_NETWORK(H8_an_empty_network_is_offline) {
  struct scene scene;
  net_begin(&scene);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(MSGQ_REASON_NO_TRANSPORT, reason_of(&scene, "a"));
  struct stub stub;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, reason_of(&scene, "a")); /* known when msgq_monitor_start returns */
  AWAIT_OFFLINE(&scene);
  CHECK(banner_is(&scene, "You're offline. 1 message queued. It will be sent when connected."));
  /* A default route on the loopback device does not count, and neither does an address without a default route. */
  net_pair("va", 1);
  net_run("ip route add default dev lo");
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE));
  net_run("ip route del default");
  net_run("ip route add 10.9.0.0/16 dev va");
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE));
  CHECK_NUMBER(1, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  /* The message is sent when there is a default route. */
  net_run("ip route add default via 10.0.1.2");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY) == 2);
  scene_end(&scene);
}

TEST_NETWORK(H8_offline_when_any_part_of_the_route_is_missing) {
  static const char *const changes[][2] = {
    /* a change that breaks the route, and one that restores it */
    { "ip route del default", "ip route add default via 10.0.1.2" },
    { "ip link set va down", "ip link set va up && ip route add default via 10.0.1.2" },
    { "ip link set va-peer down", "ip link set va-peer up" }, /* no carrier, but the route stays */
    { "ip address del 10.0.1.1/24 dev va", "ip address add 10.0.1.1/24 dev va && ip route replace default via 10.0.1.2" },
    { "ip link del va", "ip link add va type veth peer name va-peer && ip link set va up && ip link set va-peer up && "
                        "ip address add 10.0.1.1/24 dev va && ip route add default via 10.0.1.2" },
  };
  struct scene scene;
  size_t events = 1;
  net_begin_online(&scene);
  for (size_t index = 0; index < sizeof changes / sizeof changes[0]; index++) {
    net_run("%s", changes[index][0]);
    AWAIT_OFFLINE(&scene);
    net_run("%s", changes[index][1]);
    AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
    events += 2;
    if (!CHECK_NUMBER(events, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY))) fprintf(stderr, "  after %s\n", changes[index][0]);
  }
  scene_end(&scene);
}

TEST_NETWORK(H8_an_ipv6_network_is_online) {
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  net_run("ip address flush dev va");
  if (!net_try("ip -6 address add fd00:1::1/64 dev va nodad")) SKIP("the kernel has no IPv6");
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_OFFLINE(&scene);
  net_run("ip -6 route add default via fd00:1::2 dev va");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  /* A link-local address is not enough. */
  net_run("ip -6 address del fd00:1::1/64 dev va");
  net_try("ip -6 route replace default via fe80::1 dev va");
  AWAIT_OFFLINE(&scene);
  /* An IPv4 address without an IPv4 route is not enough. */
  net_run("ip address add 10.0.1.1/24 dev va");
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE));
  net_run("ip -6 address add fd00:1::1/64 dev va nodad");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  scene_end(&scene);
}

TEST_NETWORK(H8_a_route_that_rejects_packets_is_offline) {
  static const char *const types[] = { "unreachable", "blackhole", "prohibit", "throw" };
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_OFFLINE(&scene);
  for (size_t index = 0; index < sizeof types / sizeof types[0]; index++) {
    net_run("ip route add %s default metric 5", types[index]);
    CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE));
    net_run("ip route del %s default metric 5", types[index]);
  }
  CHECK_NUMBER(1, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  scene_end(&scene);
}

TEST_NETWORK(H8_one_usable_default_route_of_several_is_enough) {
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  net_pair("vb", 2);
  net_run("ip route add default nexthop via 10.0.1.2 dev va nexthop via 10.0.2.2 dev vb");
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  net_run("ip link set va-peer down");
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET));
  net_run("ip link set vb-peer down");
  AWAIT_OFFLINE(&scene);
  net_run("ip link set va-peer up");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  CHECK_NUMBER(3, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  scene_end(&scene);
}

TEST_NETWORK(H8_a_default_route_in_another_table_is_online) {
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_OFFLINE(&scene);
  /* Some systems choose routing tables by rules. */
  net_run("ip route add default via 10.0.1.2 table 100");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  net_run("ip route del default table 100");
  AWAIT_OFFLINE(&scene);
  scene_end(&scene);
}

/* Opens a tunnel device: a link of type "other", which has a carrier while the descriptor is open. */
static int open_tunnel(const char *name) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  int tunnel = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (tunnel < 0 || ioctl(tunnel, TUNSETIFF, &request) != 0) SKIP("the system does not permit a tunnel (/dev/net/tun)");
  return tunnel;
}

TEST_NETWORK(H8_the_link_is_that_of_the_preferred_route) {
  struct scene scene;
  net_begin(&scene);
  int tunnel = open_tunnel("tun0");
  net_pair("va", 1);
  net_run("ip link set tun0 up");
  net_run("ip address add 10.0.7.1/24 dev tun0");
  net_run("ip route add default via 10.0.1.2 metric 100");
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  net_run("ip route add default dev tun0 metric 200");
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET));
  net_run("ip route add default dev tun0 metric 50");
  AWAIT_ONLINE(&scene, MSGQ_LINK_OTHER);
  net_run("ip route del default dev tun0 metric 50");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  /* A route without a carrier is not used. A tunnel counts only while another link can carry it. */
  net_run("ip link set va-peer down");
  AWAIT_OFFLINE(&scene);
  net_pair("vb", 2);
  AWAIT_ONLINE(&scene, MSGQ_LINK_OTHER);
  net_run("ip link set va-peer up");
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  net_run("ip route del default metric 100");
  AWAIT_ONLINE(&scene, MSGQ_LINK_OTHER);
  close(tunnel); /* removes the link */
  AWAIT_OFFLINE(&scene);
  scene_end(&scene);
}

TEST_NETWORK(H8_a_bridge_is_an_ethernet) {
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  if (!net_try("ip link add br0 type bridge")) SKIP("the kernel does not support bridges");
  net_run("ip address flush dev va && ip link set va master br0 && ip link set br0 up");
  net_run("ip address add 10.0.3.1/24 dev br0 && ip route add default via 10.0.3.2");
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  scene_end(&scene);
}

TEST_NETWORK(H8_a_vlan_is_an_ethernet) {
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  if (!net_try("ip link add link va name va.5 type vlan id 5")) SKIP("the kernel does not support VLANs");
  net_run("ip link set va.5 up && ip address add 10.0.3.1/24 dev va.5 && ip route add default via 10.0.3.2");
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  scene_end(&scene);
}

TEST_NETWORK(H8_set_connectivity_is_refused_while_the_monitor_runs) {
  struct scene scene;
  net_begin(&scene);
  net_pair("va", 1);
  CHECK_RESULT(MSGQ_OK, msgq_monitor_stop(scene.queue));
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  CHECK_RESULT(MSGQ_OK, msgq_monitor_start(scene.queue));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
  AWAIT_OFFLINE(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_monitor_stop(scene.queue));
  CHECK_RESULT(MSGQ_OK, msgq_monitor_stop(scene.queue));
  /* After the stop the last state stays, and the host can set another one. */
  net_run("ip route add default via 10.0.1.2");
  CHECK(net_stays(&scene, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE));
  set_online(&scene);
  AWAIT_ONLINE(&scene, MSGQ_LINK_WIFI);
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  AWAIT_ONLINE(&scene, MSGQ_LINK_ETHERNET);
  CHECK_NUMBER(3, journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY));
  scene_end(&scene);
}

TEST_NETWORK(H8_a_monitor_leaks_no_descriptors) {
  struct scene scene;
  net_begin(&scene);
  AWAIT(process_descriptors() > 0);
  size_t before = process_descriptors();
  for (int time = 0; time < 1000; time++) {
    CHECK_RESULT(MSGQ_OK, msgq_monitor_start(scene.queue));
    CHECK_RESULT(MSGQ_OK, msgq_monitor_stop(scene.queue));
  }
  AWAIT(process_descriptors() == before);
  REQUIRE_OK(msgq_monitor_start(scene.queue));
  CHECK(process_descriptors() > before);
  size_t all = process_descriptors();
  scene_close(&scene);
  CHECK(process_descriptors() < all && process_descriptors() < before);
  scene_end(&scene);
}
