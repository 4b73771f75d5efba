"""`et`: inspects, compares, checks, runs and measures programs."""
