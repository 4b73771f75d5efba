"""Parts of a chat with a program: tokens, sampling, the state of a conversation.

Only `etllm.chat.program` needs ExecuTorch; the others work on plain numbers and text.
"""
