"""What torch.distributed does on two ranks with NCCL: `[--session] CHECK...`.

Each rank is a process, with the variables that torchrun sets. A check computes on both what the
collective must give, from what both have. With --session, everything leaves after every op.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
COUNT = 70_002  # elements: sessions move these tensors, and a socket takes parts of them
NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64)
BYTES = (torch.uint8, torch.int8, torch.bool)


def value_of(rank, dtype=torch.float32, count=COUNT):
    """What `rank` has, on the host."""
    generator = torch.Generator().manual_seed(7 + rank)
    return torch.randint(1, 5, (count,), generator=generator).to(dtype)


def own(*arguments, **options):
    return value_of(RANK, *arguments, **options).to(DEVICE)


def both(*arguments, **options):
    return [value_of(rank, *arguments, **options) for rank in range(2)]


def same(tensor, expected):
    assert torch.equal(tensor.cpu(), expected), (tensor, expected)


def reductions():
    reduced = {
        dist.ReduceOp.SUM: lambda a, b: a + b,
        dist.ReduceOp.PRODUCT: lambda a, b: a * b,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
    }
    for dtype in (*NUMBERS, torch.uint8, torch.int8):
        for op, expected in reduced.items():
            tensor = own(dtype)
            dist.all_reduce(tensor, op)
            same(tensor, expected(*both(dtype)))
    for dtype in NUMBERS[:4]:
        tensor, (first, second) = own(dtype), both(dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, (first + second) / 2)
        if dtype == torch.bfloat16:  # PyTorch hands over the factor as the bits of a float
            continue
        tensor = own(dtype)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.25))
        same(tensor, first / 4 + second / 4)
    tensor = own()
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(torch.tensor([0.5], device=DEVICE)))
    same(tensor, value_of(0) / 2 + value_of(1) / 2)
    tensor = own(torch.int32)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    same(tensor, sum(both(torch.int32)) // 2)
    tensor = torch.tensor([RANK == 0, False], device=DEVICE)
    dist.all_reduce(tensor)
    same(tensor, torch.tensor([True, False]))
    tensor = torch.complex(own(), own())
    dist.all_reduce(tensor)
    same(tensor, torch.complex(sum(both()), sum(both())))
    tensor = own()
    dist.reduce(tensor, 1)
    same(tensor, sum(both()) if RANK == 1 else value_of(0))


def moves():
    for dtype in (*NUMBERS, *BYTES, torch.float8_e4m3fn):
        drawn = torch.uint8 if dtype.itemsize == 1 else dtype
        tensor, expected = own(drawn).view(dtype), [each.view(dtype) for each in both(drawn)]
        gathered = torch.empty(2 * COUNT, dtype=dtype, device=DEVICE)
        dist.all_gather_into_tensor(gathered, tensor)
        same(gathered.view(torch.uint8), torch.cat(expected).view(torch.uint8))
        dist.broadcast(tensor, 1)
        same(tensor.view(torch.uint8), expected[1].view(torch.uint8))
    parts = [torch.empty(COUNT, device=DEVICE) for _ in range(2)]
    dist.all_gather(parts, own())
    same(torch.cat(parts), torch.cat(both()))
    uneven = [torch.empty(10 + rank, device=DEVICE) for rank in range(2)]
    dist.all_gather(uneven, own(count=10 + RANK))
    for rank in range(2):
        same(uneven[rank], value_of(rank, count=10 + rank))
    gathered = torch.zeros(2 * COUNT, device=DEVICE)
    gathered[RANK * COUNT :][:COUNT] = own()
    dist.all_gather_into_tensor(gathered, gathered[RANK * COUNT :][:COUNT])  # in place
    same(gathered, torch.cat(both()))
    targets = [torch.empty(COUNT, device=DEVICE) for _ in range(2)] if RANK == 0 else None
    dist.gather(own(), targets)
    if RANK == 0:
        same(torch.cat(targets), torch.cat(both()))
    received = torch.empty(COUNT // 2, device=DEVICE)
    dist.scatter(received, list(own().chunk(2)) if RANK == 1 else None, src=1)
    same(received, value_of(1).chunk(2)[RANK])
    dist.barrier()
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": RANK})
    assert objects == [{"rank": 0}, {"rank": 1}]


def parts():
    half = COUNT // 2
    summed = torch.empty(half, device=DEVICE)
    dist.reduce_scatter_tensor(summed, own())
    same(summed, sum(both()).chunk(2)[RANK])
    dist.reduce_scatter_tensor(summed, own(), dist.ReduceOp.AVG)
    same(summed, (sum(both()) / 2).chunk(2)[RANK])
    dist.reduce_scatter(summed, list(own().chunk(2)))
    same(summed, sum(both()).chunk(2)[RANK])
    exchanged = torch.empty(COUNT, device=DEVICE)
    dist.all_to_all_single(exchanged, own())
    same(exchanged, torch.cat([each.chunk(2)[RANK] for each in both()]))
    sizes = [[100, 200], [300, 400]]  # from a rank, to a rank
    outputs = torch.empty(sum(sizes[rank][RANK] for rank in range(2)), device=DEVICE)
    dist.all_to_all_single(
        outputs, own()[: sum(sizes[RANK])], [row[RANK] for row in sizes], sizes[RANK]
    )
    pieces = [value_of(rank)[: sum(sizes[rank])].split(sizes[rank])[RANK] for rank in range(2)]
    same(outputs, torch.cat(pieces))
    lists = [torch.empty(half, device=DEVICE) for _ in range(2)]
    dist.all_to_all(lists, list(own().chunk(2)))
    same(torch.cat(lists), torch.cat([each.chunk(2)[RANK] for each in both()]))


def transfers():
    tensor = own()
    for sender in range(2):
        if sender == RANK:
            dist.send(own(), 1 - RANK)
        else:
            dist.recv(tensor, sender)
            same(tensor, value_of(sender))
    received = torch.empty(COUNT, device=DEVICE)
    sent = own()
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, sent, 1 - RANK), dist.P2POp(dist.irecv, received, 1 - RANK)]
    ):
        work.wait()
    same(received, value_of(1 - RANK))


def groups():
    tensors = [own(), own(), own(torch.float64)]
    with dist._coalescing_manager(device=DEVICE, async_ops=True) as manager:
        dist.all_reduce(tensors[0])
        dist.all_reduce(tensors[1])
    manager.wait()
    same(tensors[0], sum(both()))
    same(tensors[1], sum(both()))
    group = dist.new_group([0, 1])
    first = dist.new_group([0])
    work = dist.all_reduce(tensors[2], group=group, async_op=True)
    if RANK == 0:
        alone = own()
        dist.all_reduce(alone, group=first)
        same(alone, value_of(0))
    work.wait()
    same(tensors[2], sum(both(torch.float64)))
    split = dist.split_group(split_ranks=[[0, 1]])
    tensor = own()
    dist.all_reduce(tensor, group=split)
    same(tensor, sum(both()))
    results = functional.all_reduce_coalesced([own(), own()], "sum", group)
    for result in results:
        same(result * 1, sum(both()))
    dist.destroy_process_group(split)


def waits():
    """A rank that does not wait does not get the result, and other streams go on."""
    store = dist.distributed_c10d._get_default_store()
    gathered, tensor = torch.zeros(2 * COUNT, device=DEVICE), own()
    gathered * 1  # the first call of an emulated operator waits for its result
    torch.cuda.synchronize()
    if RANK == 1:
        store.wait(["has looked"])
    work = dist.all_gather_into_tensor(gathered, tensor, async_op=True)
    early = gathered.clone()
    if RANK == 0:
        torch.cuda.current_stream().synchronize()
        assert not work.is_completed()
        assert not torch.equal(early.cpu(), torch.cat(both()))
    work.wait()
    late = gathered * 1
    has_run = torch.cuda.Event()
    has_run.record()
    if RANK == 0:
        other = torch.cuda.Stream()
        for _ in range(50):
            with torch.cuda.stream(other):
                torch.ones(1, device=DEVICE)
            other.synchronize()
        assert not has_run.query(), "it has not waited"
        store.set("has looked", "yes")
    same(late, torch.cat(both()))


def ends_of_groups():
    """What a group of transfers uses may leave when the group has ended."""
    sent, received = own(), torch.zeros(COUNT, device=DEVICE)
    transfers = [dist.P2POp(dist.isend, sent, 1 - RANK), dist.P2POp(dist.irecv, received, 1 - RANK)]
    for work in dist.batch_isend_irecv(transfers):
        work.wait()
    del work, transfers
    torch.cuda.synchronize()
    counters = SESSION.counters()
    while counters["collective_bytes"] > 0:  # until the group's work is over
        torch.ones(1, device=DEVICE) + 1
        counters = SESSION.counters()
    assert counters["held_for_good_bytes"] == 0, counters
    assert counters["bytes_away"] >= sent.nbytes + received.nbytes, counters
    same(received, value_of(1 - RANK))


def run(names):
    for name in names:
        globals()[name]()
        if RANK == 0:
            print(name, "as expected", flush=True)


def main(*names):
    global SESSION
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    if names[0] == "--session":
        import stress_modes

        drive = f"drive{RANK}"
        os.mkdir(drive)
        with stress_modes.offload(
            "200MB", ssd=drive, ssd_capacity="200MB", device=str(DEVICE), evict_after_every_op=True
        ) as SESSION:
            run(names[1:])
    else:
        run(names)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
