"""Progress: only for who looks at a terminal, and only when reading takes long."""

import io
import threading

import pytest
from rich.console import Console

from kernelscope.rendering import progress
from kernelscope.rendering.progress import ReadingProgress


@pytest.fixture
def clock(monkeypatch):
    """Moves the clock that the progress bar looks at."""
    now = [100.0]

    class Time:
        @staticmethod
        def monotonic():
            return now[0]

    monkeypatch.setattr(progress, "time", Time)

    def forward(seconds):
        now[0] += seconds

    return forward


def console(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def test_nothing_is_shown_within_the_first_second(clock):
    screen = console(terminal=True)
    with ReadingProgress(screen) as reading:
        clock(0.9)
        reading.update(10, 100)
    assert screen.file.getvalue() == ""


def test_a_bar_with_counts_is_shown_after_a_second(clock):
    screen = console(terminal=True)
    with ReadingProgress(screen) as reading:
        clock(1.1)
        reading.update(2_500, 10_000)
    assert "2,500 of 10,000 kernels" in screen.file.getvalue()


def test_nothing_is_shown_where_no_one_looks(clock):
    screen = console(terminal=False)
    with ReadingProgress(screen) as reading:
        clock(60)
        reading.update(10, 100)
    assert screen.file.getvalue() == ""


def test_the_bar_goes_to_standard_error():
    assert ReadingProgress()._console.stderr


def test_many_threads_share_one_bar(clock):
    screen = console(terminal=True)
    failures = []
    barrier = threading.Barrier(8)

    def update():
        barrier.wait()
        try:
            reading.update(1, 8)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    with ReadingProgress(screen) as reading:
        clock(2)
        threads = [threading.Thread(target=update) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(reading._progress.tasks) == 1
    assert failures == []
