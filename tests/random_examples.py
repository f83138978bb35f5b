"""How many examples a random test draws: `make test-fast` a tenth of those of `make test`."""

from hypothesis import settings

# How long an example takes says more of the machine than of the code.
settings.register_profile("whole", settings(), deadline=None)
settings.register_profile("quick", settings(), deadline=None, max_examples=10)
settings.load_profile("whole")


def examples(count: int) -> int:
    """Return `count`, or its share in a profile of fewer examples than a hundred."""
    return max(1, count * settings.default.max_examples // 100)
