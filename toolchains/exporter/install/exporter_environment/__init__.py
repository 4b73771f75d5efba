"""Makes the Python environment in which models are exported: an interpreter and its packages."""
