"""Signatures of Standard Webhooks: HMAC-SHA256 over the id, the time of the attempt, and the body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Union

from ..errors import InvalidError

Secrets = Union[str, Iterable[str]]

_PREFIX = "whsec_"
# Bytes of a secret.
_LEAST, _MOST = 24, 64
_PLAIN = re.compile(r"[A-Za-z0-9_~!$&'()*+,;=:@/-]\Z")


class Signer:
    """Signs messages with one secret, or with several while they are being replaced."""

    def __init__(self, secrets: Secrets) -> None:
        """Decodes the secrets.

        Raises:
            InvalidError: One is not whsec_ and base64 of 24 to 64 bytes, or there is none.
        """
        self._keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
        if not self._keys:
            raise InvalidError("webhook_secret must have at least one secret")

    def headers(self, id: str, body: bytes, seconds: int) -> dict[str, str]:
        """Returns the three headers of a message; `seconds` is the time of the attempt since 1970 UTC."""
        name = webhook_id(id)
        content = b".".join((name.encode("ascii"), str(seconds).encode("ascii"), body))
        digests = (hmac.new(key, content, hashlib.sha256).digest() for key in self._keys)
        signatures = " ".join(f"v1,{base64.b64encode(digest).decode('ascii')}" for digest in digests)
        return {"webhook-id": name, "webhook-timestamp": str(seconds), "webhook-signature": signatures}


def webhook_id(id: str) -> str:
    """Returns an id as the header carries it: the same for one id, different for two.

    What is signed is divided by full stops, so one in an id would make it ambiguous. It is percent-encoded, and so are
    the percent sign, spaces, quotes, and characters outside ASCII.
    """
    return "".join(
        chr(byte) if _PLAIN.match(chr(byte)) else f"%{byte:02x}" for byte in id.encode("utf-8", "surrogatepass")
    )


def _key(secret: object) -> bytes:
    # No message contains the secret.
    if not isinstance(secret, str):
        raise TypeError(f"webhook_secret must be str or several, not {type(secret).__name__}")
    if not secret.startswith(_PREFIX):
        raise InvalidError(f"a webhook secret must begin with {_PREFIX}")
    try:
        key = base64.b64decode(secret[len(_PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidError(f"a webhook secret must be {_PREFIX} and base64") from None
    if not _LEAST <= len(key) <= _MOST:
        raise InvalidError(f"a webhook secret must have {_LEAST} to {_MOST} bytes, got {len(key)}")
    return key
