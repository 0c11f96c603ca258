"""A diffusion transformer of diffusers, and its loss on random images or videos and prompts.

What encodes these is not there: their latents and embeddings are drawn.
"""

import inspect

import torch

_ATTENTION = ["to_q", "to_k", "to_v", "to_out.0"]
_TIMES = 1000
_WORDS = 512
_PIXELS_OF_LATENT, _FRAMES_OF_LATENT = 8, 4


def _patches(config, side, _):
    """Flux packs 2 x 2 latents into a token."""
    return (side // 2) ** 2, config.in_channels


def _images(config, side, _):
    return config.in_channels, side, side


def _videos(config, side, frames):
    return config.in_channels, (frames - 1) // _FRAMES_OF_LATENT + 1, side, side


# By the class: the shape of an example, and the pixels of its side where nobody names them.
_CLASSES = {
    "DiTTransformer2DModel": (_images, 256),
    "Flux2Transformer2DModel": (_patches, 1024),
    "FluxTransformer2DModel": (_patches, 1024),
    "HunyuanVideoTransformer3DModel": (_videos, 480),
    "QwenImageTransformer2DModel": (_patches, 1024),
    "SD3Transformer2DModel": (_images, 1024),
    "WanTransformer3DModel": (_videos, 480),
}


class Diffusion:
    """`model` is a torch.nn.Module on the default device, in the default dtype.

    Args:
        config: a dict, what a config.json of diffusers contains.

    Raises:
        ImportError: diffusers or peft is missing.
        ValueError: the class is none of those that this module knows.
    """

    def __init__(self, config, options):
        name = config["_class_name"]
        if name not in _CLASSES:
            raise ValueError(f"{name} is none of {', '.join(_CLASSES)}")
        import diffusers

        shape, pixels = _CLASSES[name]
        self.model = getattr(diffusers, name).from_config(config).train()
        self._batch, self._words = options.batch, options.sequence or _WORDS
        self._side = (options.pixels or pixels) // _PIXELS_OF_LATENT
        self._shape = shape(self.model.config, self._side, options.frames)
        if options.lora:
            self._add_lora(options.lora)
        if options.checkpointing:
            self.model.enable_gradient_checkpointing()

    def loss(self):
        """Predicts the way from the data to the noise (flow matching)."""
        data = torch.randn(self._batch, *self._shape)
        noise, times = torch.randn_like(data), torch.randint(_TIMES, (self._batch,))
        share = (times / _TIMES).to(data.dtype).view(-1, *[1] * len(self._shape))
        inputs = {"hidden_states": (1 - share) * data + share * noise, "timestep": times}
        predicted = self.model(**inputs, **self._conditions(), return_dict=False)[0]
        predicted = predicted[:, : data.shape[1]]  # others also predict a variance
        return torch.nn.functional.mse_loss(predicted.float(), (noise - data).float())

    def _conditions(self):
        """The further inputs of the model that it has parameters for."""
        config, batch, words, side = self.model.config, self._batch, self._words, self._side // 2
        axes = len(config.get("axes_dims_rope", ()))
        grid = map(torch.arange, (1, side, side, 1)[:axes])
        makers = {
            "class_labels": lambda: torch.randint(config.num_embeds_ada_norm, (batch,)),
            "encoder_hidden_states": lambda: torch.randn(batch, words, _width(config)),
            "encoder_hidden_states_mask": lambda: torch.ones(batch, words, dtype=torch.bool),
            "encoder_attention_mask": lambda: torch.ones(batch, words, dtype=torch.bool),
            "guidance": lambda: torch.ones(batch) if config.guidance_embeds else None,
            "img_ids": lambda: torch.cartesian_prod(*grid).float(),
            "img_shapes": lambda: [[(1, side, side)]] * batch,
            "pooled_projections": lambda: torch.randn(batch, config.pooled_projection_dim),
            "txt_ids": lambda: torch.zeros(words, axes),
        }
        taken = inspect.signature(self.model.forward).parameters
        return {name: make() for name, make in makers.items() if name in taken}

    def _add_lora(self, rank):
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(r=rank, target_modules=_ATTENTION)
        inject_adapter_in_model(config, self.model.requires_grad_(False))


def _width(config):
    """The width of a word of a prompt."""
    names = ("joint_attention_dim", "text_dim", "text_embed_dim")
    return next(config[name] for name in names if name in config)
