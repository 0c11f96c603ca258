"""`teraio dry-run`: predicts a training script's ops, memory and time on another device.

The unchanged script runs on fake tensors, which have shapes and lifetimes but no bytes, under the
same observer as a real run. A roofline model of the device predicts the time of every op.
"""
