"""teraio_figures: what timelines tell."""

import pytest

from teraio_figures.timeline import Timeline


def event(row, start_s, length_s, size=0):
    return {
        "ph": "X",
        "tid": row,
        "ts": start_s * 1e6,
        "dur": length_s * 1e6,
        "args": {"bytes": size},
    }


def test_transfers_beside_compute_count_once():
    # compute      0 1 2 3 . 5 6 7         a step of 8 s that stalls in second 4
    # SSD read         2 3 4 5             two channels at once in seconds 4 and 5
    # host write           4 5
    events = [event(1, 0, 4), event(1, 5, 3), event(3, 2, 4, 40), event(6, 4, 2, 20)]
    timeline = Timeline(events, 8)
    assert timeline.overlapped_s() == pytest.approx(3)


def test_what_passes_the_end_of_a_step_belongs_to_its_start():
    timeline = Timeline([event(1, 10, 4), event(5, 13, 2, 20)], 4)  # the step starts at 10 s
    assert timeline.rates(5, 4) == pytest.approx([10, 0, 0, 10])
    assert timeline.overlapped_s() == pytest.approx(2)


def test_rates_add_up_to_what_was_moved():
    timeline = Timeline([event(1, 0, 4), event(3, 0.3, 1.9, 19), event(3, 2.5, 0.1, 5)], 4)
    rates = timeline.rates(3, 7)
    assert sum(rates) * 4 / 7 == pytest.approx(24)
