"""Fine-tunes the UNet of Stable Diffusion, or adapters of it, on images and their captions.

    accelerate launch -m teraio run --device-budget 8GB --ssd /mnt/nvme0 \
    examples/finetune_diffusion.py --model stable-diffusion-v1-5/stable-diffusion-v1-5 --images DIR
"""

import argparse
import pkgutil

import accelerate
import datasets
import diffusers.training_utils
import peft
import torch


def collate(examples):
    captions, images = zip(*((each["text"], each["image"]) for each in examples), strict=True)
    words = pipe.tokenizer(captions, padding="max_length", truncation=True, return_tensors="pt")
    return pipe.image_processor.preprocess(list(images), options.size), words["input_ids"]


parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, help="a folder, or a name on the Hugging Face Hub")
parser.add_argument("--images", required=True, help="a folder with metadata.jsonl")
parser.add_argument("--size", type=int, default=512, help="pixels")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--lora-rank", type=int, help="train adapters of this rank")
parser.add_argument("--optimizer", default="torch.optim.AdamW", help="module and class")
options = parser.parse_args()
accelerator = accelerate.Accelerator()
pipe = diffusers.StableDiffusionPipeline.from_pretrained(options.model, torch_dtype=torch.float32)
schedule = diffusers.DDPMScheduler.from_config(pipe.scheduler.config)
unet = pipe.to(accelerator.device).unet.train()
if options.lora_rank:
    adapters = {"r": options.lora_rank, "target_modules": ["to_q", "to_k", "to_v", "to_out.0"]}
    unet.requires_grad_(False).add_adapter(peft.LoraConfig(**adapters))
trained = [parameter for parameter in unet.parameters() if parameter.requires_grad]
optimizer = pkgutil.resolve_name(options.optimizer)(trained, lr=1e-5)
average = diffusers.training_utils.EMAModel(trained)
data = datasets.load_dataset("imagefolder", data_dir=options.images, split="train")
drawn = torch.utils.data.RandomSampler(data, replacement=True, num_samples=2 * options.steps)
loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=drawn, collate_fn=collate)
unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
for pixels, words in loader:
    with torch.no_grad():
        latents = pipe.vae.encode(pixels).latent_dist.sample() * pipe.vae.config.scaling_factor
        meanings = pipe.text_encoder(words)[0]
    noise, times = torch.randn_like(latents), torch.randint(len(schedule), (2,)).to(latents.device)
    predicted = unet(schedule.add_noise(latents, noise, times), times, meanings).sample
    accelerator.backward(torch.nn.functional.mse_loss(predicted.float(), noise))
    accelerator.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    average.step(trained)
average.copy_to(trained)
if options.lora_rank:
    pipe.save_lora_weights("unet", peft.get_peft_model_state_dict(pipe.unet))
else:
    pipe.unet.save_pretrained("unet")
