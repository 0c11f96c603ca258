"""The jobs of the matrix, by name."""

from functools import partial

from . import models
from .jobs import Job

_LLAMA = Job()
_ENCODER = Job(models.Encoder)
_RECURRENT = Job(models.Recurrent, models.clips)
_EXPERTS = Job(models.Experts)

JOBS = {
    "llama, SGD with momentum": _LLAMA.but(optimizer="sgd"),
    "llama, AdamW": _LLAMA,
    "llama, foreach AdamW, clipping": _LLAMA.but(optimizer="foreach", clip_norm=0.5),
    "llama, fused AdamW, schedule": _LLAMA.but(optimizer="fused", schedule=True),
    "llama, bf16 autocast, gradients zeroed": _LLAMA.but(autocast=True, zeroes_to_none=False),
    "llama, reentrant checkpointing": _LLAMA.but(
        model=partial(models.Llama, checkpointing="reentrant"), frozen=("norm",)
    ),
    "llama, checkpointing, autocast": _LLAMA.but(
        model=partial(models.Llama, checkpointing="other"), autocast=True
    ),
    "llama, accumulation": _LLAMA.but(accumulated_batches=3, steps=4),
    "llama, changing lengths": _LLAMA.but(batch=models.tokens_of_changing_length, steps=6),
    "llama, frozen blocks": _LLAMA.but(frozen=("blocks.0", "blocks.1"), clip_norm=1.0),
    "encoder, dropout, evaluation": _ENCODER.but(evaluates=True),
    "encoder, foreach, accumulation": _ENCODER.but(optimizer="foreach", accumulated_batches=2),
    "encoder, autocast, fused": _ENCODER.but(autocast=True, optimizer="fused"),
    "recurrent, SGD, evaluation": _RECURRENT.but(optimizer="sgd", evaluates=True, schedule=True),
    "recurrent, AdamW, clipping": _RECURRENT.but(clip_norm=1.0, zeroes_to_none=False),
    "experts, AdamW": _EXPERTS,
    "experts, foreach, autocast": _EXPERTS.but(optimizer="foreach", autocast=True, schedule=True),
}

# Below this share of its peak a job has an op that the budget cannot hold.
LEAST_SHARES = {
    "llama, fused AdamW, schedule": 25,
    "encoder, autocast, fused": 25,
    "recurrent, SGD, evaluation": 80,  # the LSTM's backward is one op
    "recurrent, AdamW, clipping": 50,
}
