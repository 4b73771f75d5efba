"""Splits programs into blobs and an index, and links them into .pte and .ptd files.

Nothing here imports torch: linking is a file operation.
"""
