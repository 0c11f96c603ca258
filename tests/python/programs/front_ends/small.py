"""Writes small models with random weights, and what examples/ train them on: small.py."""

import json
from pathlib import Path

import diffusers
import PIL.Image
import tokenizers
import torch
import transformers

WORDS = [f"word{number}" for number in range(400)]
LENGTH, CAPTION = 64, 8
# The width and the number of layers. TRL computes the loss in tiles of 32,768 words by the tokens
# of the batch, at most 17 MB here, whatever the vocabulary: a quarter of the peak of llama-256 is
# more. A matrix of llama-512 is larger in 4 bits than what never moves.
LLAMAS = {"llama": (128, 6), "llama-256": (256, 8), "llama-512": (512, 4)}
HEADS = {"num_attention_heads": 4, "attention_head_dim": 32}
TRANSFORMERS = {
    "DiTTransformer2DModel": HEADS | {"num_layers": 3, "out_channels": 8, "sample_size": 16},
    "FluxTransformer2DModel": HEADS
    | {"in_channels": 16, "num_layers": 1, "num_single_layers": 2, "guidance_embeds": True}
    | {"joint_attention_dim": 64, "pooled_projection_dim": 64, "axes_dims_rope": (8, 12, 12)},
    "WanTransformer3DModel": HEADS
    | {"in_channels": 4, "out_channels": 4, "text_dim": 64, "freq_dim": 32, "ffn_dim": 256}
    | {"num_layers": 3, "rope_max_seq_len": 32},
}
TEXT = {"vocab_size": 512, "num_attention_heads": 4, "bos_token_id": 1, "eos_token_id": 2}


def tokenizer(length):
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", *WORDS])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<pad>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, model_max_length=length, **names
    )


def llama(width, layers):
    sizes = {"hidden_size": width, "intermediate_size": width * 11 // 4}
    sizes |= {"num_hidden_layers": layers, "max_position_embeddings": LENGTH}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT, **sizes, pad_token_id=0))


def stable_diffusion():
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    text |= {"max_position_embeddings": CAPTION}
    unet = {"sample_size": 16, "cross_attention_dim": 64, "attention_head_dim": 8}
    unet |= {"block_out_channels": (64, 128), "layers_per_block": 1}
    unet |= {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D")}
    unet |= {"up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
    vae = {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2}
    vae |= {"up_block_types": ("UpDecoderBlock2D",) * 2}
    return diffusers.StableDiffusionPipeline(
        unet=diffusers.UNet2DConditionModel(**unet),
        vae=diffusers.AutoencoderKL(**vae),
        text_encoder=transformers.CLIPTextModel(transformers.CLIPTextConfig(**TEXT, **text)),
        tokenizer=tokenizer(CAPTION),
        scheduler=diffusers.DDPMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def write_lines(path, lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def main():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)  # loaded in fp32, nothing stays in the file's memory
    for name, sizes in LLAMAS.items():
        llama(*sizes).save_pretrained(name)
        tokenizer(LENGTH).save_pretrained(name)
    stable_diffusion().save_pretrained("stable-diffusion")
    for name, config in TRANSFORMERS.items():
        Path(f"{name}.json").write_text(json.dumps({"_class_name": name, **config}))
    texts = [[WORDS[(7 * first + step) % 400] for step in range(80)] for first in range(200)]
    write_lines(Path("texts/data.json"), ({"text": " ".join(words)} for words in texts))
    write_lines(Path("prompts/data.json"), ({"prompt": " ".join(words[:8])} for words in texts))
    names = [f"{number}.png" for number in range(8)]
    lines = ({"file_name": name, "text": " ".join(WORDS[:8])} for name in names)
    write_lines(Path("images/metadata.jsonl"), lines)
    for name in names:
        PIL.Image.effect_noise((32, 32), 64).convert("RGB").save(Path("images") / name)


if __name__ == "__main__":
    main()
