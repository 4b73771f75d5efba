"""Finds a Bazel for `bazelw`, or puts one together from Debian packages."""
