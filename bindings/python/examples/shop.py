"""An order and its message, both or neither. A thread collects whenever the queue asks for it.

python shop.py SHOP.db QUEUE.db
"""

import sqlite3
import sys
import threading

from msgqueue import Delivery, Event, EventKind, MessageQueue, Outbox, Outcome

database, store = sys.argv[1:]
wanted, ended = threading.Event(), threading.Event()


def send(delivery: Delivery) -> Outcome:
    print(f"to {delivery.conversation}: {delivery.body.decode()}", flush=True)
    return Outcome.sent()


def on_event(event: Event) -> None:
    if event.kind is EventKind.COLLECT:
        wanted.set()


def collect(queue: MessageQueue) -> None:
    connection = sqlite3.connect(database)
    outbox = Outbox(connection, queue)
    is_last = False
    while not is_last:
        is_last = ended.is_set()
        wanted.clear()
        while outbox.collect():
            pass
        if not is_last:
            wanted.wait()
    connection.close()


shop = sqlite3.connect(database)
shop.execute("PRAGMA journal_mode = WAL")
shop.execute("CREATE TABLE IF NOT EXISTS orders(number INTEGER PRIMARY KEY, text TEXT)")
outbox = Outbox(shop)
outbox.create()
with MessageQueue(store, send, on_event=on_event) as queue:
    collector = threading.Thread(target=collect, args=(queue,))
    collector.start()
    for number in range(1, 4):
        with outbox:
            shop.execute("INSERT INTO orders(text) VALUES(?)", (f"order {number}",))
            outbox.put(f"order {number}", conversation="ana")
        queue.request_collect()
    ended.set()
    wanted.set()
    collector.join()
    queue.drain()
shop.close()
