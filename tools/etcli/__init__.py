"""`et`: looks into programs, compares, checks and runs them."""
