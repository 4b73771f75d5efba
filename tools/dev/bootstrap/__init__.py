"""Finds or assembles Bazel for `bazelw`."""
