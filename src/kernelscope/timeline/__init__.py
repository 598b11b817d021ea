"""A trace as a timeline for Perfetto and chrome://tracing."""

from kernelscope.timeline.writing import Timeline, write_timeline

__all__ = ["Timeline", "write_timeline"]
