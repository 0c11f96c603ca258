"""A language model of Hugging Face Transformers, and its loss on random tokens."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

_TOKENS = 2048


class Language:
    """`model` is a torch.nn.Module on the default device, in the default dtype.

    Args:
        name: a config.json, a folder that has one, or a name on the Hugging Face Hub.

    Raises:
        ImportError: peft is missing.
        OSError, ValueError: nothing is found, or Transformers does not know the model.
    """

    def __init__(self, name, options):
        config = AutoConfig.from_pretrained(Path(name) if Path(name).exists() else name)
        config.use_cache = False
        self._shape = options.batch, options.sequence or _TOKENS
        self._vocabulary = config.get_text_config().vocab_size
        self.model = AutoModelForCausalLM.from_config(config, dtype=torch.get_default_dtype())
        if options.lora:
            self.model = _with_lora(self.model, options.lora)
        if options.checkpointing:
            self.model.enable_input_require_grads()
            self.model.gradient_checkpointing_enable()

    def loss(self):
        tokens = torch.randint(self._vocabulary, self._shape)
        return self.model(input_ids=tokens, labels=tokens).loss


def _with_lora(model, rank):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, target_modules="all-linear")
    return get_peft_model(model, config, autocast_adapter_dtype=False)
