"""Trains an image or video model of diffusers as its training scripts do: diffusion.py WAY OUTCOME.

The models are small and have random weights. Every step encodes a batch, adds noise to it, and
predicts the noise (the UNet) or the way from the data to the noise (the transformers).
"""

import sys

import accelerate
import diffusers
import peft
import torch
import transformers
from diffusers.training_utils import EMAModel
from outcome import states_of, write_outcome

STEPS, BATCH, WORDS, WIDTH = 12, 2, 8, 64
ATTENTION = ["to_q", "to_k", "to_v", "to_out.0"]


class UNet:
    """Stable Diffusion: a UNet, whose images and prompts come from frozen models."""

    def __init__(self):
        self.model = diffusers.UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(64, 128),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=WIDTH,
            attention_head_dim=8,
        )
        self.images = diffusers.AutoencoderKL(
            block_out_channels=(32, 64),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
        ).requires_grad_(False)
        config = transformers.CLIPTextConfig(
            vocab_size=256,
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=WORDS,
            bos_token_id=0,
            eos_token_id=1,
        )
        self.prompts = transformers.CLIPTextModel(config).requires_grad_(False)
        self.schedule = diffusers.DDPMScheduler(num_train_timesteps=1000)

    def loss(self):
        prompts = self.prompts(torch.randint(256, (BATCH, WORDS)))[0]
        images = self.images.encode(torch.rand(BATCH, 3, 32, 32)).latent_dist.sample()
        noise = torch.randn_like(images)
        times = torch.randint(1000, (BATCH,))
        noisy = self.schedule.add_noise(images, noise, times)
        return mean_square(self.model(noisy, times, prompts).sample, noise)


class Flux:
    """Flux: a transformer over patches and prompts, which come encoded."""

    def __init__(self, words=WORDS, side=8, **sizes):
        self.words, self.side = words, side
        self.model = diffusers.FluxTransformer2DModel(guidance_embeds=True, **sizes)

    def loss(self):
        config, words = self.model.config, self.words
        images = torch.randn(BATCH, self.side**2, config.in_channels)
        noise, share, times = noise_for(images)
        predicted = self.model(
            hidden_states=(1 - share) * images + share * noise,
            timestep=times,
            guidance=torch.full((BATCH,), 3.5),
            pooled_projections=torch.randn(BATCH, config.pooled_projection_dim),
            encoder_hidden_states=torch.randn(BATCH, words, config.joint_attention_dim),
            txt_ids=torch.zeros(words, 3),
            img_ids=torch.cartesian_prod(*map(torch.arange, (1, self.side, self.side))).float(),
        ).sample
        return mean_square(predicted, noise - images)


class Wan:
    """Wan: a transformer over the patches of a video."""

    def __init__(self):
        self.model = diffusers.WanTransformer3DModel(
            num_attention_heads=4,
            attention_head_dim=32,
            in_channels=4,
            out_channels=4,
            text_dim=WIDTH,
            freq_dim=32,
            ffn_dim=256,
            num_layers=3,
            rope_max_seq_len=32,
        )

    def loss(self):
        videos = torch.randn(BATCH, 4, 3, 12, 12)
        noise, share, times = noise_for(videos)
        prompts = torch.randn(BATCH, WORDS, WIDTH)
        noisy = (1 - share) * videos + share * noise
        return mean_square(self.model(noisy, 1000 * times, prompts).sample, noise - videos)


SMALL_FLUX = {
    "in_channels": 16,
    "num_layers": 1,
    "num_single_layers": 2,
    "attention_head_dim": 32,
    "num_attention_heads": 4,
    "joint_attention_dim": WIDTH,
    "pooled_projection_dim": WIDTH,
    "axes_dims_rope": (8, 12, 12),
}
TRAININGS = {
    "UNet": UNet,
    "Flux": lambda: Flux(**SMALL_FLUX),
    "Flux of 12 billion": lambda: Flux(words=512, side=64),  # images of 1024 x 1024
    "Wan": Wan,
}


def noise_for(data):
    """Returns noise like the data, its share at a drawn time, and that time, of each of a batch."""
    times = torch.sigmoid(torch.randn(BATCH))
    return torch.randn_like(data), times.view(-1, *[1] * (data.ndim - 1)), times


def mean_square(predicted, wanted):
    return torch.nn.functional.mse_loss(predicted.float(), wanted.float())


def main():
    name, *options = sys.argv[1].split(", ")
    accelerator = accelerate.Accelerator(
        cpu=True, mixed_precision="bf16" if "bf16" in options else "no"
    )
    training = TRAININGS[name]()
    if "LoRA" in options:
        training.model.requires_grad_(False)
        training.model.add_adapter(peft.LoraConfig(r=8, target_modules=ATTENTION))
    if "checkpointing" in options:
        training.model.enable_gradient_checkpointing()
    trained = [p for p in training.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    average = EMAModel(trained) if "EMA" in options else None
    training.model, optimizer = accelerator.prepare(training.model, optimizer)
    losses = []
    for _ in range(STEPS):
        loss = training.loss()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if average is not None:
            average.step(trained)
        losses.append(loss.item())
    averages = average.shadow_params if average is not None else []
    write_outcome(
        losses,
        dict(training.model.named_parameters()),
        {f"average {number}": tensor for number, tensor in enumerate(averages)},
        states_of(optimizer.optimizer),
    )


main()
