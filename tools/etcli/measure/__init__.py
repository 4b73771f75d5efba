"""Evaluates programs against their eager models, and measures how fast they are."""
