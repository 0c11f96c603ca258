"""Saves and resumes runs; a resumed run continues bit-identically."""

from pathlib import Path

import torch

from .atomic import replacing


def save(path: Path, step: int, model, optimizer, scheduler, batches, history: dict) -> None:
    """Writes all state that the next step depends on; the file is complete or absent."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "data_position": batches.position,
        "rng": torch.get_rng_state(),
        "rng_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "history": history,
    }
    with replacing(path) as partial:
        torch.save(state, partial)


def resume(path: Path, device, model, optimizer, scheduler, batches) -> tuple[int, dict]:
    """Restores a checkpoint; returns the step to continue with and the history so far."""
    state = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(state.pop("model"))
    optimizer.load_state_dict(state.pop("optimizer"))
    scheduler.load_state_dict(state["scheduler"])
    batches.position = state["data_position"]
    torch.set_rng_state(state["rng"].cpu())
    if state["rng_cuda"]:
        torch.cuda.set_rng_state_all([generator.cpu() for generator in state["rng_cuda"]])
    return state["step"], state["history"]
