"""A Llama of Hugging Face's with random weights, and random tokens to train it on."""

import torch
import transformers

VOCABULARY = 512
LENGTH = 64


def make_llama(**options):
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "intermediate_size": 352,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "max_position_embeddings": LENGTH,
    }
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(sizes | options)))


class Tokens(torch.utils.data.Dataset):
    """Random sequences, each its own label."""

    def __init__(self, count=64):
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(VOCABULARY, (count, LENGTH), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, number):
        return {"input_ids": self.tokens[number], "labels": self.tokens[number]}
