"""A Llama-architecture language model in plain PyTorch: model, presets, data."""
