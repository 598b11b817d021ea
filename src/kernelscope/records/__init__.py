"""A record of runs: one SQLite database that every summary of a trace can be added to."""

from kernelscope.records.database import check_record
from kernelscope.records.over_runs import history
from kernelscope.records.recording import Recorded, record

__all__ = ["Recorded", "check_record", "history", "record"]
