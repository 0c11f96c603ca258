"""Stands in for a training script that is not written yet: trains a model of Hugging Face
Transformers or of diffusers, with random weights, on random numbers.

    teraio suggest -m teraio.stand_in config.json --precision bf16 --lora 16
"""
