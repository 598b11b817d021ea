"""The tables of a record, as the steps that lead to them.

A new database goes through every migration, so that each is run whenever one is made. A step
that was published is never changed; what comes later is appended.
"""

from __future__ import annotations

from collections.abc import Sequence

APPLICATION_ID = 0x6B73636F
"""Says in the file's header that it is a record of kernelscope ("ksco")."""

_TABLES = (
    """CREATE TABLE runs (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        captured_at TEXT, recorded_at TEXT, trace TEXT, gpus TEXT, processes TEXT, ranks INTEGER,
        exporter TEXT, graph_trace TEXT, derived_from TEXT, step_method TEXT, step_evidence TEXT,
        kernelscope_version TEXT, rules_version TEXT, warnings TEXT, content TEXT
    )""",
    """CREATE TABLE phases (
        id TEXT PRIMARY KEY, run_id TEXT REFERENCES runs(id) ON DELETE CASCADE,
        rank INTEGER, phase TEXT, batch INTEGER,
        steps INTEGER, incomplete_steps INTEGER, excluded_steps INTEGER,
        requests_per_step_median FLOAT, requests_per_step_min INTEGER,
        requests_per_step_max INTEGER,
        kernels_per_step_median FLOAT, kernels_per_step_min INTEGER, kernels_per_step_max INTEGER,
        wall_ms_median FLOAT, wall_ms_p10 FLOAT, wall_ms_p90 FLOAT, wall_ms_min FLOAT,
        wall_ms_max FLOAT,
        span_ms FLOAT, kernel_ms FLOAT, busy_ms FLOAT, idle_ms FLOAT,
        idle_inside_replay_ms FLOAT, idle_for_cpu_ms FLOAT, idle_between_launches_ms FLOAT,
        overlap_ms FLOAT, gap_ms FLOAT, launch_calls_per_step FLOAT,
        graph_launches_per_step FLOAT, tokens_per_s FLOAT, prompt_tokens_per_s FLOAT,
        opaque_share FLOAT
    )""",
    """CREATE TABLE categories (
        phase_id TEXT REFERENCES phases(id) ON DELETE CASCADE, category TEXT, family TEXT,
        kernels_per_step FLOAT, kernel_ms FLOAT, share FLOAT,
        PRIMARY KEY (phase_id, category)
    )""",
    """CREATE TABLE kernels (
        id TEXT PRIMARY KEY, phase_id TEXT REFERENCES phases(id) ON DELETE CASCADE,
        name TEXT, short_name TEXT, category TEXT, family TEXT, rule_id TEXT, method TEXT,
        pair TEXT, kernels_per_step FLOAT, kernel_ms FLOAT, share FLOAT, longest_ms FLOAT
    )""",
    """CREATE TABLE steps (
        run_id TEXT REFERENCES runs(id) ON DELETE CASCADE, rank INTEGER, step INTEGER,
        phase TEXT, status TEXT, label TEXT,
        context_requests INTEGER, context_tokens INTEGER,
        generation_requests INTEGER, generation_tokens INTEGER,
        start_ms FLOAT, wall_ms FLOAT, span_ms FLOAT, kernel_ms FLOAT, busy_ms FLOAT,
        idle_ms FLOAT, kernels INTEGER, graph_launches INTEGER, launch_calls INTEGER,
        PRIMARY KEY (run_id, rank, step)
    )""",
    "CREATE INDEX phases_run_id ON phases(run_id)",
    "CREATE INDEX categories_category ON categories(category)",
    "CREATE INDEX kernels_phase_id ON kernels(phase_id)",
)

_SEARCHED = ("labels", "trace", "gpus", "processes")
_COLUMNS = ", ".join(_SEARCHED)
_NEW = ", ".join(f"new.{column}" for column in _SEARCHED)
_OLD = ", ".join(f"old.{column}" for column in _SEARCHED)
_FORGET = (
    f"INSERT INTO runs_fts (runs_fts, rowid, {_COLUMNS}) VALUES ('delete', old.number, {_OLD})"
)
_LEARN = f"INSERT INTO runs_fts (rowid, {_COLUMNS}) VALUES (new.number, {_NEW})"

# Labels came second: the first databases had none, and nothing to search in.
_LABELS = (
    "ALTER TABLE runs ADD COLUMN labels TEXT",
    """CREATE TABLE labels (
        run_id TEXT REFERENCES runs(id) ON DELETE CASCADE, key TEXT, value TEXT,
        PRIMARY KEY (run_id, key)
    )""",
    f"""CREATE VIRTUAL TABLE runs_fts
        USING fts5 ({_COLUMNS}, content='runs', content_rowid='number')""",
    f"CREATE TRIGGER runs_ai AFTER INSERT ON runs BEGIN {_LEARN}; END",
    f"CREATE TRIGGER runs_ad AFTER DELETE ON runs BEGIN {_FORGET}; END",
    f"CREATE TRIGGER runs_au AFTER UPDATE ON runs BEGIN {_FORGET}; {_LEARN}; END",
    "INSERT INTO runs_fts (runs_fts) VALUES ('rebuild')",
)

MIGRATIONS: Sequence[Sequence[str]] = (_TABLES, _LABELS)
"""Statements that lead from version n to n + 1, at index n; version 0 is an empty database."""

VERSION = len(MIGRATIONS)
"""Of the tables that this release writes, kept in ``PRAGMA user_version``."""
