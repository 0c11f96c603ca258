"""Sessions that move tensors after every op, as only tests want it."""

import teraio
from teraio import core


def offload(*arguments, evict_after_every_op=False, discard_after_every_op=False, **options):
    """Returns a session. After every op it evicts every tensor that can leave,
    or discards every tensor that can be made again."""
    core.set_options_for_tests(
        evict_after_every_op=evict_after_every_op, discard_after_every_op=discard_after_every_op
    )
    return teraio.offload(*arguments, **options)
