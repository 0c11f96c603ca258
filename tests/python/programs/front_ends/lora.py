"""Trains adapters of a frozen Llama with PEFT and the Hugging Face Trainer: lora.py WAY OUTCOME.

WAY is "fp32", or one of QUANTIZED: how the base is quantized when it is loaded.
"""

import sys
from pathlib import Path

import peft
import torch
import transformers
from outcome import states_of, write_outcome
from small_llama import Tokens, make_llama


def torchao_8_bits():
    from torchao.quantization import Int8WeightOnlyConfig

    return transformers.TorchAoConfig(Int8WeightOnlyConfig())


QUANTIZED = {
    "bitsandbytes, NF4": lambda: transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
    ),
    "bitsandbytes, 8 bits": lambda: transformers.BitsAndBytesConfig(load_in_8bit=True),
    "torchao, 8 bits": torchao_8_bits,
}


# A matrix in 4 bits is larger than what never moves.
SIZES = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4}
BASE = Path("../base")  # the first run writes it


def quantized(way):
    if not BASE.exists():
        make_llama(**SIZES).save_pretrained(BASE)
    torch.manual_seed(1)  # for the adapters, whether or not the base had to be made
    base = transformers.AutoModelForCausalLM.from_pretrained(
        BASE, quantization_config=QUANTIZED[way](), device_map="cpu", dtype=torch.float32
    )
    return peft.prepare_model_for_kbit_training(base, use_gradient_checkpointing=False)


def main(way):
    arguments = transformers.TrainingArguments(
        output_dir="checkpoints",
        max_steps=8,
        per_device_train_batch_size=8,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    base = make_llama() if way == "fp32" else quantized(way)
    config = peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj", "down_proj"])
    model = peft.get_peft_model(base, config)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Tokens())
    trainer.train()
    model.save_pretrained("adapter")
    losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    write_outcome(losses, dict(model.named_parameters()), states_of(trainer.optimizer.optimizer))


if __name__ == "__main__":
    main(sys.argv[1])
