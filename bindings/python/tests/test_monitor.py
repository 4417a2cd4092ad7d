"""H8: the library watches the network, in a network namespace that only these tests use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import ConflictError, Connectivity, Link
from support import Events, environment

UNSHARE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def in_namespace(*command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*UNSHARE, *command], capture_output=True, text=True, timeout=timeout, env=environment(), check=False
    )


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    """Skips where the system does not allow network namespaces."""
    missing = [name for name in ("unshare", "ip") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"NOT TESTED: H8, the watch on the network: there is no {' and no '.join(missing)} here")
    tried = in_namespace("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
    if tried.returncode != 0:
        pytest.skip(f"NOT TESTED: H8, the watch on the network: no namespace or no veth here: {tried.stderr.strip()}")


START = """
    import subprocess, sys, time
    from msgqueue import ConflictError, Connectivity, Link, MessageQueue, Mode
    from receiver import Receiver
    from sender import HttpTransport
    from support import wait_until

    OFFLINE, ONLINE = Connectivity.OFFLINE, Connectivity.ONLINE

    def ip(*words):
        subprocess.run(["ip", *" ".join(words).split()], check=True, stdin=subprocess.DEVNULL)

    def pair(number):
        ip(f"link add veth{number} type veth peer name peer{number}")
        ip(f"link set peer{number} up")

    class Network:
        # The last event about the network, and the number of such events.
        def __init__(self):
            self.last = []
            self.changes = 0

        def __call__(self, event):
            if event.connectivity is not None and event.link is not None:
                self.changes += 1
                self.last = [event.connectivity, event.link]

        def becomes(self, connectivity, link=Link.ETHERNET):
            if connectivity is OFFLINE:
                link = Link.NONE
            wait_until(lambda: self.last == [connectivity, link], timeout=10)

        def stays(self, connectivity, seconds=0.3):
            time.sleep(seconds)
            assert self.last[0] is connectivity, self.last

    network = Network()
    # Loopback is up, as everywhere; it does not count as online.
    ip("link set lo up")
    receiver = Receiver()
    queue = MessageQueue(sys.argv[1], HttpTransport(receiver.port), on_event=network, online_debounce=0)
    queue.start_monitor()
"""


def watched(tmp_path: Path, code: str) -> None:
    """Runs START and the code in a new namespace; it must print "done" at its end."""
    whole = textwrap.dedent(START) + textwrap.dedent(code) + "\nqueue.close()\nprint('done')\n"
    ended = in_namespace(sys.executable, "-c", whole, str(tmp_path / "outbox.db"))
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "done\n")


def test_H8_online_needs_a_link_an_address_and_a_default_route(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        network.becomes(OFFLINE)
        pair(0)
        ip("link set veth0 up")
        network.stays(OFFLINE)
        ip("address add 192.0.2.1/24 dev veth0")
        network.stays(OFFLINE)
        ip("route add default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)

        # The route is removed and added again.
        ip("route del default")
        network.becomes(OFFLINE)
        ip("route add default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)

        # The link goes down: the kernel removes its routes without a message for each.
        ip("link set veth0 down")
        network.becomes(OFFLINE)
        ip("link set veth0 up")
        network.stays(OFFLINE)
        ip("route add default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)

        # The address is removed.
        ip("address del 192.0.2.1/24 dev veth0")
        network.becomes(OFFLINE)
        ip("address add 192.0.2.1/24 dev veth0")
        ip("route replace default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)

        # The link is removed.
        ip("link del veth0")
        network.becomes(OFFLINE)
        """,
    )


def test_H8_a_cable_unplugged_at_the_other_end_is_offline(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        pair(0)
        ip("link set veth0 up")
        ip("address add 192.0.2.1/24 dev veth0")
        ip("route add default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)
        ip("link set peer0 down")
        network.becomes(OFFLINE)
        ip("link set peer0 up")
        network.becomes(ONLINE)
        """,
    )


def test_H8_ipv6_alone_is_online(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        pair(0)
        ip("link set veth0 up")
        ip("-6 address add 2001:db8::1/64 dev veth0 nodad")
        network.becomes(OFFLINE)
        ip("-6 route add default via 2001:db8::2 dev veth0")
        network.becomes(ONLINE)
        ip("-6 route del default")
        network.becomes(OFFLINE)
        ip("-6 route add default via 2001:db8::2 dev veth0")
        network.becomes(ONLINE)
        ip("-6 address del 2001:db8::1/64 dev veth0")
        # A link-local address does not count as a source address.
        network.becomes(OFFLINE)
        """,
    )


def test_H8_an_address_of_the_other_family_does_not_help(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        pair(0)
        ip("link set veth0 up")
        ip("-6 address add 2001:db8::1/64 dev veth0 nodad")
        ip("route add default dev veth0")
        network.becomes(OFFLINE)
        network.stays(OFFLINE)
        ip("address add 192.0.2.1/24 dev veth0")
        network.becomes(ONLINE)
        """,
    )


def test_H8_unreachable_routes_do_not_count(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        pair(0)
        ip("link set veth0 up")
        ip("address add 192.0.2.1/24 dev veth0")
        for route in ("unreachable default", "blackhole default", "default dev lo", "192.0.2.128/25 dev veth0"):
            ip(f"route add {route}")
            network.stays(OFFLINE, 0.1)
            ip(f"route del {route}")
        ip("route add default dev veth0")
        network.becomes(ONLINE)
        """,
    )


def test_H8_a_route_of_several_hops_is_online_as_long_as_one_of_them_is_up(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        for number in (0, 1):
            pair(number)
            ip(f"link set veth{number} up")
            ip(f"address add 192.0.{number + 2}.1/24 dev veth{number}")
        ip("route add default nexthop via 192.0.2.254 dev veth0 nexthop via 192.0.3.254 dev veth1")
        network.becomes(ONLINE)
        ip("link set veth0 down")
        network.stays(ONLINE)
        ip("link set veth1 down")
        network.becomes(OFFLINE)
        """,
    )


def test_H8_a_second_route_keeps_it_online(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        for number in (0, 1):
            pair(number)
            ip(f"link set veth{number} up")
            ip(f"address add 192.0.{number + 2}.1/24 dev veth{number}")
            ip(f"route add default via 192.0.{number + 2}.254 dev veth{number} metric {100 + number}")
        network.becomes(ONLINE)
        before = network.changes
        ip("link del veth0")
        network.stays(ONLINE)
        assert network.changes == before
        ip("link del veth1")
        network.becomes(OFFLINE)
        """,
    )


def test_H8_the_monitor_begins_with_the_current_state_and_the_backlog_is_sent_when_online(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        # start_monitor returns with the state known, so this message is not sent at once.
        id = queue.enqueue("hello")
        assert queue.explain(id).code.name == "OFFLINE"
        assert queue.banner() == "You're offline. 1 message queued. It will be sent when connected."
        pair(0)
        ip("address add 192.0.2.1/24 dev veth0")
        ip("link set veth0 up")
        assert receiver.texts == []
        ip("route add default via 192.0.2.254 dev veth0")
        wait_until(lambda: queue.counts().sent == 1)
        assert receiver.ids == [id]
        """,
    )


def test_H8_the_last_known_connectivity_stays_after_the_monitor_stops(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        pair(0)
        ip("link set veth0 up")
        ip("address add 192.0.2.1/24 dev veth0")
        ip("route add default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)
        queue.start_monitor()  # changes nothing
        try:
            queue.set_connectivity(OFFLINE)
            raise SystemExit("set_connectivity was accepted")
        except ConflictError:
            pass
        queue.stop_monitor()
        queue.stop_monitor()
        ip("link set veth0 down")
        network.stays(ONLINE)
        # The host reports connectivity again, until the monitor is started again.
        queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)
        network.becomes(ONLINE, Link.WIFI)
        queue.start_monitor()
        network.becomes(OFFLINE)
        """,
    )


def test_H8_flapping_ends_in_the_true_state(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        pair(0)
        ip("link set veth0 up")
        ip("address add 192.0.2.1/24 dev veth0")
        ids = []
        for number in range(20):
            ip("route add default via 192.0.2.254 dev veth0")
            ids.append(queue.enqueue(str(number)))
            ip("route del default")
        network.becomes(OFFLINE)
        ip("route add default via 192.0.2.254 dev veth0")
        network.becomes(ONLINE)
        wait_until(lambda: queue.counts().sent == 20)
        assert receiver.ids == ids
        """,
    )


def test_H8_an_asyncio_queue_gets_the_connectivity(tmp_path: Path) -> None:
    watched(
        tmp_path,
        """
        import asyncio
        from msgqueue import aio

        async def main():
            async with aio.MessageQueue(sys.argv[1] + "2", online_debounce=0.0) as queue:
                events = queue.events()
                await queue.start_monitor()
                pair(0)
                ip("link set veth0 up")
                ip("address add 192.0.2.1/24 dev veth0")
                ip("route add default via 192.0.2.254 dev veth0")
                async for event in events:
                    if event.connectivity is ONLINE and event.link is Link.ETHERNET:
                        return

        asyncio.run(asyncio.wait_for(main(), 20))
        """,
    )


def test_closing_the_queue_ends_its_monitor(opened: Opener) -> None:
    events = Events()
    for _ in range(20):
        queue = opened(on_event=events)
        queue.start_monitor()
        with pytest.raises(ConflictError):
            queue.set_connectivity(Connectivity.ONLINE, Link.ETHERNET)
        queue.close()
    states: Any = {json.dumps([event.connectivity, event.link]) for event in events.all() if event.link is not None}
    # Whatever the network of this machine is, it is the same each time.
    assert len(states) <= 1
