"""B7: Kafka, by Tansu: an independent broker with its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import checks
import pytest
from brokers import Tansu
from proof import proof
from servers import started

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tansu]:
    broker = started(Tansu, tmp_path_factory.mktemp("tansu"))
    assert isinstance(broker, Tansu)
    yield broker
    broker.end()


def test_B7_B8_tansu_id_conversation_metadata_and_trace_context_travel(broker: Tansu) -> None:
    checks.headers_travel(broker)


def test_B7_tansu_consumers_see_the_id_of_a_message_that_is_sent_twice(broker: Tansu) -> None:
    checks.same_id_twice(broker)


def test_B7_tansu_keeps_the_order_of_a_conversation_in_a_batch(broker: Tansu) -> None:
    checks.order_in_a_batch(broker)


def test_B7_tansu_topic_by_a_function(broker: Tansu) -> None:
    checks.target_by_function(broker)


@pytest.mark.parametrize("retries", [1, 0])
def test_B7_tansu_only_the_message_that_ends_the_connection_fails(broker: Tansu, tmp_path: Path, retries: int) -> None:
    """librdkafka repeats all of the request until time is up."""
    checks.only_the_culprit_fails(broker, tmp_path, retries=retries)


def test_B7_tansu_away_and_back(broker: Tansu, tmp_path: Path) -> None:
    checks.away_and_back(broker, tmp_path)


def test_B7_B9_tansu_proof(broker: Tansu, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = proof(broker, tmp_path)
    with capsys.disabled():
        print(f"\n{report}")
