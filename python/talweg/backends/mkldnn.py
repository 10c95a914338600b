"""Intel's oneDNN, which is not used: the CPU's kernels are Talweg's own."""


def is_available() -> bool:
    """False."""
    return False


__all__ = ["is_available"]
