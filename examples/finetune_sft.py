"""Fine-tunes a language model, or adapters of it, on texts with TRL's SFTTrainer.

    teraio run --device-budget 20GB --ssd /mnt/nvme0 examples/finetune_sft.py --bf16 --packing \
      --model_name_or_path meta-llama/Llama-3.1-8B --dataset_name trl-lib/Capybara --output_dir out

All options of trl.SFTConfig and trl.ModelConfig are options of this program, also in a file:
--config sft.yaml.
"""

import datasets
import trl

parser = trl.TrlParser((trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig))
script, arguments, model = parser.parse_args_and_config()
trainer = trl.SFTTrainer(
    model=model.model_name_or_path,
    args=arguments,
    train_dataset=datasets.load_dataset(script.dataset_name, split=script.dataset_train_split),
    peft_config=trl.get_peft_config(model),
)
trainer.train()
trainer.save_model(arguments.output_dir)
