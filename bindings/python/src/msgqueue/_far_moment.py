"""Points in time that a datetime cannot express."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


class FarMoment(datetime):
    """The first or the last datetime, in place of a point in time outside the range, which it remembers.

    So the cursor of a page, which is the time of a message, has the value of the store.
    """

    milliseconds: int | None = None
    """Since 1970 UTC; None: this was calculated from such a time, and is what it says."""

    @classmethod
    def of(cls, milliseconds: int) -> FarMoment:
        """Returns the nearest datetime."""
        nearest = (cls.max if milliseconds > 0 else cls.min).replace(tzinfo=timezone.utc)
        made = cls.combine(nearest.date(), nearest.timetz())
        made.milliseconds = milliseconds
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401 - as in typeshed
        """Copies and pickles the point in time too."""
        return super().__reduce_ex__(protocol) if self.milliseconds is None else (FarMoment.of, (self.milliseconds,))
