"""Reads programs, data files and folders: inspect, diff, verify."""
