"""The files that runs read and write."""
