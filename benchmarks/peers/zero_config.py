"""DeepSpeed configurations, tuned for speed on a CPU by its documentation, or for memory.

`speed` keeps parameters resident, prefetches the next ones and moves optimizer states in large
groups; `memory` has the smallest settings that work. With either, the C library can return memory
to the system, which costs time but can make a training fit. `bench-peers` publishes the
configuration of each arm.
"""

from pathlib import Path

# From the fastest to the smallest: (tuning, whether memory is returned to the system).
ATTEMPTS = (("speed", False), ("speed", True), ("memory", True))
RETURN_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
    "MALLOC_ARENA_MAX": "2",
}
# Elements of 4 bytes. DeepSpeed keeps buffer_count buffers of the largest group or parameter.
SUB_GROUP_ELEMENTS = {"speed": 20_000_000, "memory": 1_000_000}
LIVE_ELEMENTS = {"speed": 50_000_000, "memory": 0}
PREFETCH_ELEMENTS = {"speed": 10_000_000, "memory": 0}
AIO = {
    "block_size": 1 << 20,
    "queue_depth": 16,
    "intra_op_parallelism": 1,
    "single_submit": False,
    "overlap_events": True,
}


def _shared(args) -> dict:
    return {
        "train_micro_batch_size_per_gpu": args.micro_batch,
        "gradient_accumulation_steps": args.accumulation,
        "gradient_clipping": 1.0,
        "steps_per_print": 1_000_000,
        "wall_clock_breakdown": False,
    }


def zero_infinity(args, tuning: str, drive: Path, largest_parameter_elements: int) -> dict:
    """Stage 3 with parameters and optimizer states on the drive."""
    nvme = {"device": "nvme", "nvme_path": str(drive), "pin_memory": False}
    return _shared(args) | {
        "aio": AIO,
        "zero_optimization": {
            "stage": 3,
            "contiguous_gradients": True,
            "overlap_comm": False,
            "sub_group_size": SUB_GROUP_ELEMENTS[tuning],
            "reduce_bucket_size": SUB_GROUP_ELEMENTS[tuning],
            "stage3_max_live_parameters": LIVE_ELEMENTS[tuning],
            "stage3_max_reuse_distance": LIVE_ELEMENTS[tuning],
            "stage3_prefetch_bucket_size": PREFETCH_ELEMENTS[tuning],
            "stage3_param_persistence_threshold": 100_000,
            "offload_param": nvme
            | {
                "buffer_count": 5 if tuning == "speed" else 2,
                "buffer_size": largest_parameter_elements,
                "max_in_cpu": LIVE_ELEMENTS[tuning],
            },
            "offload_optimizer": nvme | {"buffer_count": 4},
        },
    }


def zero_offload(args) -> dict:
    """Stage 2 with optimizer states and their step in host memory (on a CPU, device memory)."""
    return _shared(args) | {
        "zero_optimization": {
            "stage": 2,
            "contiguous_gradients": True,
            "overlap_comm": False,
            "offload_optimizer": {"device": "cpu", "pin_memory": False},
        }
    }
