"""A sentence embedder of the BERT family: tokens of a sentence to a vector of length 1."""

import torch
from etbuild import Method, ModelContext, ModelSpec
from transformers import AutoConfig, AutoModel


class SentenceEmbedder(torch.nn.Module):
    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """int64 tokens and mask (1, n), 1 for each token of the sentence; vector (1, width)."""
        states = self.encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)


def build(ctx: ModelContext) -> ModelSpec:
    config = AutoConfig.from_pretrained(ctx.file("config.json").parent, attn_implementation="eager")
    encoder = AutoModel.from_config(config)
    if any(name.endswith("model.safetensors") for name in ctx.files):
        weights = ctx.checkpoint("model.safetensors")
        weights.pop("embeddings.position_ids", None)
        encoder.load_state_dict(weights)
    length = min(128, config.max_position_embeddings)
    tokens = torch.arange(length).view(1, -1) % config.vocab_size
    some = torch.cat((torch.ones(1, 9), torch.zeros(1, length - 9)), 1).long()
    inputs, short = (tokens, torch.ones_like(tokens)), [(tokens, some)]
    method = Method(SentenceEmbedder(encoder), inputs, test_inputs=short)
    return ModelSpec({"forward": method}, {"get_max_seq_len": length})
