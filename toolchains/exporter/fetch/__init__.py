"""Finds files of Python packages by hash, where pip would; see index.py."""
