"""The mock cluster of librdkafka as a process: prints its servers, then reads commands, one a line.

down, up: all brokers; delay MILLISECONDS: of each answer; fail CODE COUNT: the next answers to Produce requests;
mend: no more of these; topic NAME CODE: the topic in answers to Metadata requests (0: as usual).
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import confluent_kafka  # type: ignore[import-not-found,unused-ignore]

BROKERS = 3
PRODUCE = 0


def main() -> None:
    folder = Path(confluent_kafka.__file__).parent
    (path,) = folder.parent.glob("confluent_kafka.libs/librdkafka-*")
    kafka = ctypes.CDLL(str(path))
    for name in ("rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(kafka, name).restype = ctypes.c_void_p
    kafka.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    kafka.rd_kafka_mock_topic_set_error.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
    text = ctypes.create_string_buffer(512)
    client = ctypes.c_void_p(kafka.rd_kafka_new(0, None, text, len(text)))
    cluster = ctypes.c_void_p(kafka.rd_kafka_mock_cluster_new(client, BROKERS))
    print(kafka.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "topic":
            name, code = words
            kafka.rd_kafka_mock_topic_set_error(cluster, name.encode(), int(code))
            words = []
        arguments = [int(word) for word in words]
        if command == "fail":
            code, count = arguments
            kafka.rd_kafka_mock_push_request_errors_array(
                cluster, PRODUCE, ctypes.c_size_t(count), (ctypes.c_int * count)(*[code] * count)
            )
        elif command == "mend":
            kafka.rd_kafka_mock_clear_request_errors(cluster, PRODUCE)
        for number in range(1, BROKERS + 1):
            if command == "down":
                kafka.rd_kafka_mock_broker_set_down(cluster, number)
            elif command == "up":
                kafka.rd_kafka_mock_broker_set_up(cluster, number)
            elif command == "delay":
                kafka.rd_kafka_mock_broker_set_rtt(cluster, number, *arguments)
        print("done", flush=True)


main()
