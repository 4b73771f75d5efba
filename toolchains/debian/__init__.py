"""Packages of a Debian archive, for repository rules and for the bootstrap."""
