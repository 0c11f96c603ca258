"""What is hung into PyTorch and Python: hooks on steps and imports, patches, and places of code."""
