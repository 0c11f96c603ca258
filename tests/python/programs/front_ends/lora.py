"""Trains adapters of a frozen Llama with PEFT and the Hugging Face Trainer: lora.py WAY OUTCOME."""

import peft
import transformers
from outcome import states_of, write_outcome
from small_llama import Tokens, make_llama

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
config = peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj", "down_proj"])
model = peft.get_peft_model(make_llama(), config)
trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Tokens())
trainer.train()
model.save_pretrained("adapter")
losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
write_outcome(losses, dict(model.named_parameters()), states_of(trainer.optimizer.optimizer))
