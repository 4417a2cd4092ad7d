"""Marks the orders of a database as sent, each exactly once, by the changes that the queue keeps.

The token of the last change is stored by the transaction that marks the orders, so both are there or neither. A crash
repeats at most what was not committed. It works with any DB-API connection that is not in autocommit mode: `sqlite3`
(parameters "?") and PostgreSQL with `psycopg` (parameters "%s").

    python order_status.py outbox.db orders.db
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from msgqueue import Change, ChangeKind, ConflictError, DuplicateError, MessageQueue, NotFoundError, Outcome, Status

# The id of an order is the id of its message.
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS orders(id TEXT PRIMARY KEY, body TEXT NOT NULL, state TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS order_feed(name TEXT PRIMARY KEY, token TEXT)",
)

# What a message that is gone without having been sent makes of its order.
_LOST = {ChangeKind.REPLACED: "replaced", ChangeKind.DISCARDED: "failed", ChangeKind.DELETED: "deleted"}
_SENT = (Status.SENT, Status.DELIVERED, Status.READ)


class OrderStatus:
    """Follows the changes of a queue for the table `orders`."""

    def __init__(self, connection: Any, parameter: str = "?") -> None:  # noqa: ANN401 - of any DB-API module
        self._connection = connection
        self._parameter = parameter

    def create(self) -> None:
        """Makes the tables, and the row with the token."""
        cursor = self._connection.cursor()
        for statement in SCHEMA:
            cursor.execute(statement)
        cursor.execute("INSERT INTO order_feed(name, token) VALUES('orders', NULL) ON CONFLICT DO NOTHING")
        self._connection.commit()

    def apply(self, queue: MessageQueue, limit: int = 100) -> int:
        """Applies the next changes. Returns how many; 0: there are no more now."""
        token = self._token()
        if token is None:
            # Without a token nothing says whether changes were missed.
            return self._list_again(queue, None)
        try:
            page = queue.changes(token, limit)
        except ConflictError:
            return self._list_again(queue, token)
        if page.changes:
            self._commit(token, page.next, page.changes)
        return len(page.changes)

    def _token(self) -> str | None:
        cursor = self._execute("SELECT token FROM order_feed WHERE name = 'orders'")
        row = cursor.fetchone()
        # The SELECT must leave no transaction open: it would keep an old view of the table.
        self._connection.rollback()
        return row[0] if row else None

    def _commit(self, before: str | None, after: str, changes: Iterable[Change]) -> None:
        try:
            if self._move(before, after):
                for change in changes:
                    self._mark(change)
                self._connection.commit()
            else:
                # Another follower was first.
                self._connection.rollback()
        except BaseException:
            self._connection.rollback()
            raise

    def _move(self, before: str | None, after: str) -> bool:
        """Stores the token, as the first statement of the transaction, so that a second follower waits for it."""
        same = "token IS NULL" if before is None else f"token = {self._parameter}"
        sql = f"UPDATE order_feed SET token = {self._parameter} WHERE name = 'orders' AND {same}"
        moved: int = self._execute(sql, after, *([] if before is None else [before])).rowcount
        return moved == 1

    def _mark(self, change: Change) -> None:
        """Applies one change, inside the transaction that stores the token: the place for effects of your own."""
        if change.kind is ChangeKind.STATUS:
            self._set_state(change.id, change.status.name.lower())
        elif change.kind in _LOST and change.status not in _SENT:
            self._set_state(change.id, _LOST[change.kind])

    def _set_state(self, order: str, state: str) -> None:
        self._execute(f"UPDATE orders SET state = {self._parameter} WHERE id = {self._parameter}", state, order)

    def _list_again(self, queue: MessageQueue, before: str | None) -> int:
        """Compares the orders with the queue, at the start and after changes were missed. Returns more than 0."""
        # The token first: what happens while this lists is a change after it, which sets the state of an order again.
        after = queue.changes(limit=1).oldest
        rows = self._execute("SELECT id FROM orders WHERE state NOT IN ('sent', 'delivered', 'read')").fetchall()
        self._connection.rollback()
        try:
            if not self._move(before, after):
                self._connection.rollback()
                return 1
            for (order,) in rows:
                # Of one that is gone the changes that are kept may say more.
                with suppress(NotFoundError):
                    self._set_state(order, queue.get(order).status.name.lower())
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        return 1

    def _execute(self, sql: str, *values: object) -> Any:  # noqa: ANN401 - as above
        cursor = self._connection.cursor()
        cursor.execute(sql, values)
        return cursor


def send_orders(queue: MessageQueue, connection: sqlite3.Connection, orders: OrderStatus) -> None:
    """Enqueues the new orders, sends them, and marks them."""
    rows = connection.execute("SELECT id, body FROM orders WHERE state = 'new' ORDER BY id").fetchall()
    connection.rollback()
    for order, body in rows:
        # A crash may have come between this and the change of the order's state.
        with suppress(DuplicateError):
            queue.enqueue(body, conversation="orders", id=order)
    queue.drain()
    while orders.apply(queue):
        pass


def main() -> None:
    store, database = sys.argv[1:3]
    connection = sqlite3.connect(database)
    orders = OrderStatus(connection)
    orders.create()
    with MessageQueue(store, lambda delivery: Outcome.sent(), keep_changes=100_000) as queue:
        send_orders(queue, connection, orders)
    for order in connection.execute("SELECT id, state FROM orders"):
        print(*order)
    connection.close()


if __name__ == "__main__":
    main()
