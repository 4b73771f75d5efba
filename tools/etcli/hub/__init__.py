"""Commands of `et` that ask the Hugging Face hub."""
