"""Data classes that are made when they are first used.

`dataclasses` compiles six functions for each class and imports `inspect`, which together took more than a third of the
time of `import msgqueue`. A program that only enqueues uses none of the values of this package.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass, field

    class Value:
        """The base of these classes."""

else:
    _lock = threading.RLock()
    # No fork while another thread makes a class: in the child the lock of the import would be held by a thread that
    # does not exist there.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

    # What `dataclasses` adds to a class.
    _NAMES = ("init", "repr", "eq", "hash", "setattr", "delattr", "replace", "match_args")
    _GENERATED = {f"__{name}__" for name in _NAMES}

    class field:  # noqa: N801 - the name in `dataclasses`
        """The arguments of `dataclasses.field`."""

        def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - as they are
            self.arguments = arguments

    def dataclass(**arguments: bool) -> Any:  # noqa: ANN401 - a decorator
        """As `dataclasses.dataclass`, for a class that is derived from `Value`."""

        def keep(cls: type) -> type:
            cls._pending = arguments
            cls._given = dict(vars(cls))
            return cls

        return keep

    def _pending(cls: type) -> list[type]:
        """Returns the class and those of its bases that are not made yet, the bases first."""
        return [kind for kind in reversed(cls.__mro__) if kind.__dict__.get("_pending") is not None]

    def _complete(cls: type) -> Any:  # noqa: ANN401 - the class
        """Makes the data class, if no other thread has done it.

        A signal may interrupt it at any place: by an exception, after which it is done again, or by a handler that
        makes the class itself.
        """
        with _lock:
            import dataclasses

            for kind in _pending(cls):
                arguments = kind._pending
                while kind._pending is not None:
                    try:
                        for name, value in kind._given.items():
                            if isinstance(value, field):
                                setattr(kind, name, dataclasses.field(**value.arguments))
                        dataclasses.dataclass(**arguments)(kind)
                        kind._pending = None
                    except BaseException as problem:
                        # The handler of a signal may have made the class meanwhile. Then `dataclasses` refuses the
                        # attributes that exist already, and the class is made again.
                        is_again = kind._pending is None and isinstance(problem, Exception)
                        kind._pending = arguments
                        for name in _GENERATED - kind._given.keys() & vars(kind).keys():
                            delattr(kind, name)
                        if not is_again:
                            raise
        return cls

    class _Described:
        """An attribute by which `dataclasses` and `inspect` know a data class: it is made then."""

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type) -> Any:  # noqa: ANN401 - of any type
            if not _pending(owner):
                raise AttributeError(self._name)
            return getattr(_complete(owner), self._name)

    class _Signature(_Described):
        """The parameters, which `inspect` reads from the class when it is made."""

        def __get__(self, instance: object, owner: type) -> Any:  # noqa: ANN401 - of any type
            if not _pending(owner):
                raise AttributeError(self._name)
            with _lock:
                import inspect

                return inspect.signature(_complete(owner))

    class Value:
        """The base of these classes. Its functions make the class, which has its own from then on."""

        __dataclass_fields__ = _Described()
        __dataclass_params__ = _Described()
        __match_args__ = _Described()
        __signature__ = _Signature()

        def __init__(self, *args: object, **kwargs: object) -> None:
            _complete(type(self)).__init__(self, *args, **kwargs)

        def __repr__(self) -> str:
            return _complete(type(self)).__repr__(self)

        def __eq__(self, other: object) -> bool:
            return _complete(type(self)).__eq__(self, other)

        def __hash__(self) -> int:
            return _complete(type(self)).__hash__(self)

        def __setattr__(self, name: str, value: object) -> None:
            _complete(type(self)).__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            _complete(type(self)).__delattr__(self, name)


__all__ = ["Value", "dataclass", "field"]
