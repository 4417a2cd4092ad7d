"""The command line: python -m msgqueue COMMAND STORE."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
