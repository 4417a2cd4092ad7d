"""A transport that answers as a test says, and can be held."""

from __future__ import annotations

import threading

from msgqueue import Delivery, Outcome


class Transport:
    """Sends everything, unless a test says otherwise."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._answers: dict[str, list[Outcome]] = {}
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()

    def __call__(self, delivery: Delivery) -> Outcome:
        self._open.wait(60)
        with self._lock:
            answers = self._answers.get(delivery.text)
            outcome = answers.pop(0) if answers else Outcome.sent()
            self.sent.append(delivery.text)
            return outcome

    def answer(self, text: str, *outcomes: Outcome) -> None:
        """Sets the answers to the next attempts of the message with that text."""
        with self._lock:
            self._answers[text] = list(outcomes)

    def hold(self) -> None:
        """Keeps attempts in progress until `release`."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()
