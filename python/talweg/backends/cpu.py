"""The CPU."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The widest vector instructions of the processor, in PyTorch's words; kernels use them where they help.

    >>> tw.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "NEON", "DEFAULT")
    True
    """
    import platform

    if platform.machine() in ("arm64", "aarch64"):
        return "NEON"
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"


__all__ = ["get_cpu_capability"]
