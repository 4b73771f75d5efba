"""Models of Hugging Face's transformers, by their own modeling code."""
