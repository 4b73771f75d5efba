"""Reads models' files from the Hugging Face hub, or from a mirror that answers in the same way."""
