"""Reports on programs and apps, as JSON and as self-contained pages."""
