"""Variants of a program for a fleet of devices: conditions, devices, and which gets which."""
