"""Makes what fails smaller."""


def shrink(items, fails):
    """Drops items, many at a time first, as long as the rest fails."""
    size = len(items) // 2
    while size > 0:
        place = 0
        while place < len(items):
            rest = items[:place] + items[place + size :]
            if fails(rest):
                items = rest
            else:
                place += size
        size //= 2
    return items
