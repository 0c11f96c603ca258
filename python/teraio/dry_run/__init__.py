"""`teraio dry-run`: what a training script would do on a device that this machine may not have.

The script runs unchanged on fake tensors, which have shapes and lifetimes but no bytes, under the
same observer as a real run. A roofline model of the device gives every op its time.
"""
