"""Starts `et`."""

from __future__ import annotations

import sys

from etcli.cli import main

if __name__ == "__main__":
    sys.exit(main())
