"""Builds targets twice under other conditions, compares the outputs and explains differences."""
