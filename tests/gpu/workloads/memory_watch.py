"""What a training takes of a GPU, as CUDA tells it, and how its allocator fares."""

import threading

import torch

INTERVAL_SECONDS = 0.1  # each look calls the driver beside the launches of the training
# Of torch.cuda.memory_stats(). The first two are zero in a training that does not run short.
COUNTED = ("num_ooms", "num_alloc_retries", "num_device_alloc", "num_device_free")


class MemoryWatch:
    """Samples the memory of the GPU while it is entered, or until end(). `record` has the result.

    `sampled_peak_bytes` is how much less memory CUDA had free than at the beginning, at most. It
    includes what libraries load, and other processes.
    """

    def __init__(self, device):
        self.is_gpu = device == "cuda"
        self.record = {}
        self.ended = threading.Event()

    def __enter__(self):
        if self.is_gpu:
            self.begin = torch.cuda.mem_get_info()[0]
            self.counts = torch.cuda.memory_stats()
            self.least = self.begin
            self.thread = threading.Thread(target=self.sample, daemon=True)
            self.thread.start()
        return self

    def sample(self):
        while not self.ended.wait(INTERVAL_SECONDS):
            self.look()

    def look(self):
        self.least = min(self.least, torch.cuda.mem_get_info()[0])

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Ends the sampling. Does nothing when it has ended."""
        if not self.is_gpu or self.ended.is_set():
            return
        self.ended.set()
        self.thread.join()
        self.look()
        counts = torch.cuda.memory_stats()
        allocator = {name: counts[name] - self.counts.get(name, 0) for name in COUNTED}
        self.record = {"sampled_peak_bytes": self.begin - self.least, "allocator": allocator}
