"""The headers traceparent and tracestate, checked by the rules of W3C Trace Context."""

from __future__ import annotations

import re
from collections.abc import Mapping

PARENT = "traceparent"
STATE = "tracestate"

# Version, trace-id, parent-id, flags, and what a version later than 00 may add.
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?\Z", re.DOTALL)
# What a header can carry: visible characters and spaces.
_VISIBLE = re.compile(r"[\x20-\x7e]*\Z")
_INVALID_VERSION = "ff"
_VERSION = "00"
_KEY = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}\Z")
_VALUE = re.compile(r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]\Z")
_MOST_MEMBERS = 32
# Characters of a header, so that one message cannot make requests that no server accepts.
_MOST_CHARACTERS = 8192


def trace_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers of the trace context in a message's metadata; those that are not valid are left out.

    Without a valid traceparent there is no tracestate either. A traceparent of a later version is passed on unchanged.
    Space around a value is not part of it, as in a header.
    """
    parent, state = (metadata.get(name, "").strip(" \t") for name in (PARENT, STATE))
    if not is_parent(parent):
        return {}
    # An empty header is valid, but should not be sent.
    return {PARENT: parent, STATE: state} if is_state(state) and members(state) else {PARENT: parent}


def is_parent(value: str) -> bool:
    """Whether this is a traceparent."""
    found = _PARENT.match(value) if len(value) <= _MOST_CHARACTERS and _VISIBLE.match(value) else None
    if found is None:
        return False
    version, trace, parent, more = found.groups()
    if version == _INVALID_VERSION or (version == _VERSION and more is not None):
        return False
    return trace.strip("0") != "" and parent.strip("0") != ""


def is_state(value: str) -> bool:
    """Whether this is a tracestate: at most 32 members, key=value, each key once. Members may be empty."""
    if len(value) > _MOST_CHARACTERS or value.count(",") >= _MOST_MEMBERS:
        return False
    pairs = [each.partition("=") for each in members(value)]
    has_repeated = len({key for key, _, _ in pairs}) < len(pairs)
    return not has_repeated and all(_KEY.match(key) and _VALUE.match(text) for key, _, text in pairs)


def members(value: str) -> list[str]:
    """Returns the members of a tracestate that are not empty, without the space around them."""
    return [each for each in (part.strip(" \t") for part in value.split(",")) if each]
