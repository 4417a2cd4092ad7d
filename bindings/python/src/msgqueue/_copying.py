"""What has a connection or threads is not copied, and not given to another process."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex


class NotCopied:
    """Refuses `copy` and `pickle`, and says why. A subclass says what to do instead."""

    _instead = "make one in each process"

    def __reduce_ex__(self, _: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled, because its connections belong to one process: "
            f"{self._instead}"
        )
