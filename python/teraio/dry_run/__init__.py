"""`teraio dry-run`: what a training script would do on a device that need not be there.

The script runs unchanged on fake tensors, which have shapes and lives and no bytes, under the same
observer as a real run. Every op is given the time that a roofline of the device says.
"""
