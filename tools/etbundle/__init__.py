"""Puts programs, shared files and a runtime together into what is installed on a device."""
