"""Whether this machine's GPUs are joined by NVLink, as NVML tells."""

from __future__ import annotations

import contextlib


def have_nvlink() -> bool | None:
    """Whether any GPU has an NVLink that is up; None where pynvml (the package nvidia-ml-py) or the driver is not."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # a missing package, library or driver, each with an error of its own
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        for handle in handles:
            # A GPU without NVLink, or with fewer of them, answers with an error.
            with contextlib.suppress(pynvml.NVMLError):
                for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
                    if pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED:
                        return True
        return False
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
