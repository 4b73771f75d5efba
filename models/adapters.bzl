"""The adapters of the Llama model in //models/adapters."""

ADAPTERS = [
    "assistant",
    "summarizer",
]
