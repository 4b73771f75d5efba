"""A model that analysis tests name; they never run it."""
