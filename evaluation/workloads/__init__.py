"""The training scripts that the evaluation dry-runs: ordinary PyTorch, without TERAIO."""
