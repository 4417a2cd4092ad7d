"""B3 to B7: what the constructors of the relays refuse, without a server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgqueue import InvalidError, relays
from msgqueue.relays.reasons import seconds
from servers import Client

# A relay, its library, and its URL with something between the scheme and the host.
RELAYS: dict[str, tuple[str, Callable[..., Client], str]] = {
    "mqtt": ("paho.mqtt.client", lambda url, **more: relays.Mqtt(url, "t", **more), "mqtt://{}h"),
    "nats": ("nats", lambda url, **more: relays.Nats(url, "t", **more), "nats://{}h"),
    "rabbitmq": ("aio_pika", lambda url, **more: relays.RabbitMq(url, "t", **more), "amqp://{}h/"),
    "redis": ("redis", lambda url, **more: relays.RedisStream(url, "t", **more), "redis://{}h/0"),
}
OWN: dict[str, list[dict[str, object]]] = {
    "nats": [
        {"disconnected_cb": print},
        {"closed_cb": print},
        {"error_cb": print},
        {"allow_reconnect": True},
        {"max_reconnect_attempts": 5},
    ],
    "rabbitmq": [{"connection_class": object}, {"reconnect_interval": 1}],
    "redis": [{"retry": None}, {"retry_on_timeout": True}, {"retry_on_error": []}, {"socket_timeout": 1}],
}


@pytest.fixture(params=RELAYS)
def name(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(RELAYS[request.param][0])
    return str(request.param)


def test_B3_B4_B5_B6_no_text_shows_a_part_of_a_password(name: str) -> None:
    _, make, url = RELAYS[name]
    first, second = "x7q", "9zk"
    for mark in "/?#[":
        for login in (f"u:{first}{mark}{second}@", f"{first}{mark}{second}@", f"u:{first}:{second}{mark}@"):
            with pytest.raises(InvalidError) as caught:
                make(url.format(login))
            assert first not in str(caught.value)
            assert second not in str(caught.value)
    right = url.format(f"u:{first}{second}@")
    for wrong in (f"ftp://u:{first}{second}@h", f"http://u:{first}{second}@h:80/", right.replace("@h", "@h:x")):
        with pytest.raises(InvalidError) as caught:
            make(wrong)
        assert first not in str(caught.value)
    make(url.format("u:a%2Fb%40@")).close()


def test_B2_no_text_shows_a_part_of_a_password() -> None:
    logins = ("u:x7q/9zk@h", "u:x7q?9zk@h", "u:x7q#9zk@h", "u:x7q[9zk@h", "u:x7q9zk@h:x", "u:x7q 9zk@h")
    for wrong in (*(f"http://{login}/" for login in logins), "ftp://u:x7q9zk@h/"):
        with pytest.raises(InvalidError) as caught:
            relays.Http(wrong)
        assert "x7q" not in str(caught.value)
        assert "9zk" not in str(caught.value)


def test_B3_B4_B5_B6_a_url_that_is_not_valid(name: str) -> None:
    _, make, _ = RELAYS[name]
    for wrong in ("x://", "h:abc", f"{name}://h:abc", f"{name}://h:99999", "http://h", "nats://h:x"):
        with pytest.raises(InvalidError):
            make(wrong)
    with pytest.raises(TypeError):
        make(5)


@pytest.mark.parametrize("name", OWN)
def test_B4_B5_B6_options_of_the_client_are_checked(name: str) -> None:
    """The client would refuse them when it connects: the queue would be offline for ever."""
    library, make, url = RELAYS[name]
    pytest.importorskip(library)
    with pytest.raises(InvalidError, match="no_such_option"):
        make(url.format(""), no_such_option=1)
    for options in OWN[name]:
        with pytest.raises(InvalidError, match=f"the relay itself sets {next(iter(options))}"):
            make(url.format(""), **options)


def test_B5_redis_options_in_the_url_are_checked() -> None:
    pytest.importorskip("redis")
    for query in ("retry_on_timeout=true", "socket_timeout=1"):
        with pytest.raises(InvalidError, match="the relay itself sets"):
            relays.RedisStream(f"redis://h/0?{query}", "t")
    for query in ("no_such_option=1", "health_check_interval=x"):
        with pytest.raises(InvalidError, match="options"):
            relays.RedisStream(f"redis://h/0?{query}", "t")
    relays.RedisStream("redis://h/0?health_check_interval=5", "t", client_name="a").close()


def test_B6_rabbitmq_options_that_the_client_knows() -> None:
    pytest.importorskip("aio_pika")
    relays.RabbitMq("amqp://h/", "t", heartbeat=5, name="a", happy_eyeballs_delay=0.1).close()


def test_B3_B4_B5_B6_B7_durations_in_texts() -> None:
    durations = {
        0.0: "1 ms",
        3e-05: "1 ms",
        0.05: "50 ms",
        0.5: "0.5 s",
        1.25: "1.2 s",
        9.97: "10 s",
        99.7: "100 s",
        600: "600 s",
    }
    assert {each: seconds(each) for each in durations} == durations
