"""Fetches files of Python packages by hash, from where pip would; see index.py."""
