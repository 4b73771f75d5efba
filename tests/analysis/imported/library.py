"""A library that lies on an import root of its own."""
