"""Composes while offline, then sends: python offline.py OUTBOX.DB PORT (of an HTTP receiver on this machine)."""

from http.client import HTTPConnection
from sys import argv

from msgqueue import Connectivity, Delivery, MessageQueue, Mode, Outcome


def send(delivery: Delivery) -> Outcome:
    receiver = HTTPConnection("127.0.0.1", int(argv[2]), timeout=delivery.timeout)
    receiver.request("POST", "/messages", delivery.body, {"Idempotency-Key": delivery.id})
    response = receiver.getresponse()
    return Outcome.http(response.status, response.headers)


with MessageQueue(argv[1], send, mode=Mode.MANUAL, on_event=print, initial_connectivity=Connectivity.OFFLINE) as queue:
    queue.enqueue_batch([{"body": f"hello {number}", "conversation": "ana"} for number in range(1, 6)])
    queue.set_connectivity(Connectivity.ONLINE)
    print(queue.drain())
