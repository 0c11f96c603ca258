"""Trains a language model, or adapters of it, by TRL's GRPO to answer in a wanted length.

    teraio run --device-budget 20GB --ssd /mnt/nvme0 examples/train_grpo.py --bf16 --use_peft \
      --model_name_or_path Qwen/Qwen3-8B --dataset_name trl-lib/tldr --output_dir out

All options of trl.GRPOConfig and trl.ModelConfig are options of this program, also in a file:
--config grpo.yaml.
"""

import datasets
import trl

WANTED_CHARACTERS = 200


def reward(completions, **_):
    return [-abs(WANTED_CHARACTERS - len(text)) / WANTED_CHARACTERS for text in completions]


parser = trl.TrlParser((trl.ScriptArguments, trl.GRPOConfig, trl.ModelConfig))
script, arguments, model = parser.parse_args_and_config()
trainer = trl.GRPOTrainer(
    model=model.model_name_or_path,
    args=arguments,
    reward_funcs=reward,
    train_dataset=datasets.load_dataset(script.dataset_name, split=script.dataset_train_split),
    peft_config=trl.get_peft_config(model),
)
trainer.train()
trainer.save_model(arguments.output_dir)
