"""The ways in which bytes of tensors escape the dispatcher, and what guards them: see README.md."""
