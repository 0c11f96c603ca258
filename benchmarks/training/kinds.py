"""Trains a small model of one of many kinds on random data. The last line has seconds per step."""

import argparse
import contextlib
import json
import time

import torch
import torch.nn.functional as F
import transformers
from torch import nn

WORDS = 8192


def text(kind, small, tokens, **settings):
    """Returns a language model, and a function that returns the loss of a batch of `tokens`."""
    width = 64 if small else 512
    settings |= {"hidden_size": width, "num_hidden_layers": 2 if small else 6}
    settings |= {"num_attention_heads": 8, "intermediate_size": 4 * width, "vocab_size": WORDS}
    config = transformers.AutoConfig.for_model(kind, **settings)
    is_causal = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING and kind != "bert"
    auto = transformers.AutoModelForCausalLM if is_causal else transformers.AutoModelForMaskedLM
    model = auto.from_config(config)
    return model, lambda: loss_of_tokens(model, (2, 32) if small else tokens)


def loss_of_tokens(model, shape):
    words = torch.randint(WORDS, shape)
    return model(input_ids=words, labels=words).loss


def adapters(small):
    import peft

    model, loss = text("llama", small, (2, 256))
    return peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear")), loss


def images(kind, small, **settings):
    """Returns a classifier of images, and a function that returns the loss of a batch."""
    config = transformers.AutoConfig.for_model(kind, num_labels=100, **settings)
    model = transformers.AutoModelForImageClassification.from_config(config)
    batch, size = (2, 32) if small else (8, 128)

    def loss():
        pixels, labels = torch.randn(batch, 3, size, size), torch.randint(100, (batch,))
        return F.cross_entropy(model(pixels).logits, labels)

    return model, loss


def vision(small):
    width, size = (64, 32) if small else (384, 128)
    settings = {"hidden_size": width, "intermediate_size": 4 * width, "image_size": size}
    layers = 2 if small else 8
    return images("vit", small, num_hidden_layers=layers, num_attention_heads=8, **settings)


def convolutions(small):
    sizes = [8, 16] if small else [64, 128, 256]
    depths = [2] * len(sizes)
    return images("resnet", small, hidden_sizes=sizes, depths=depths, layer_type="basic")


def recurrent(small):
    width = 32 if small else 512
    embedding, lstm = nn.Embedding(WORDS, width), nn.LSTM(width, width, 2, batch_first=True)
    head = nn.Linear(width, WORDS)

    def loss():
        tokens = torch.randint(WORDS, (2, 16) if small else (16, 64))
        return F.cross_entropy(head(lstm(embedding(tokens))[0]).flatten(0, 1), tokens.flatten())

    return nn.ModuleList([embedding, lstm, head]), loss


def diffusion(small):
    import diffusers

    channels = (32, 64) if small else (64, 128, 256)
    plain = len(channels) - 1
    model = diffusers.UNet2DModel(
        layers_per_block=1,
        block_out_channels=channels,
        down_block_types=("DownBlock2D",) * plain + ("AttnDownBlock2D",),
        up_block_types=("AttnUpBlock2D",) + ("UpBlock2D",) * plain,
    )

    def loss():
        noise = torch.randn(2 if small else 4, 3, 32, 32)
        return F.mse_loss(model(noise, torch.randint(1000, noise.shape[:1])).sample, noise)

    return model, loss


EXPERTS = {"num_local_experts": 8, "experts_implementation": "grouped_mm"}
KINDS = {
    "llama": lambda small: text("llama", small, (2, 256)),
    "llama, autocast": lambda small: text("llama", small, (2, 256)),
    "llama, few tokens": lambda small: text("llama", small, (1, 32)),
    "adapters": adapters,
    "gpt2": lambda small: text("gpt2", small, (2, 256)),
    "bert": lambda small: text("bert", small, (4, 128)),
    "experts": lambda small: text("mixtral", small, (1, 128), **EXPERTS),
    "vision": vision,
    "convolutions": convolutions,
    "recurrent": recurrent,
    "diffusion": diffusion,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    model, loss_of_batch = KINDS[args.kind](args.small)
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    casts = "autocast" in args.kind
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16) if casts else contextlib.nullcontext():
            loss = loss_of_batch()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
