"""Installs the exporter's environment, a hermetic Python; see environment.py."""
