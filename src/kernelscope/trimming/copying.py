"""The copy: table by table in SQL, what belongs to the kept steps and may be shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kernelscope.nsys import schema
from kernelscope.nsys.database import Column, Database, Table
from kernelscope.nsys.extract import Extract, affinity, define
from kernelscope.nsys.schema import quote
from kernelscope.trimming.allowed import Allowed, AllowedTable
from kernelscope.trimming.choosing import Chosen
from kernelscope.trimming.rows import Selection, column, condition, process
from kernelscope.trimming.texts import Rule, key_rule, tell_labels, text_rules

_MOST_NODE_ROWS = 1_000
"""About 50 KB; more bookkeeping than that is worth less than its size."""
_WORK = (schema.KERNEL, schema.MEMCPY, schema.MEMSET, schema.GRAPH_TRACE)
_NODES = (schema.OLD_GRAPH_NODES, schema.GRAPH_NODES)
_GLOBAL_IDS = frozenset({"globalpid", "globaltid"})
_TEMPORARY = """
CREATE TEMP TABLE run (process, first, last, PRIMARY KEY (process, first)) WITHOUT ROWID;
CREATE TEMP TABLE span (start_ns PRIMARY KEY, end_ns) WITHOUT ROWID;
CREATE TEMP TABLE other_label (thread, start_ns, PRIMARY KEY (thread, start_ns)) WITHOUT ROWID;
CREATE TEMP TABLE call (process, id, PRIMARY KEY (process, id)) WITHOUT ROWID;
CREATE TEMP TABLE process (id PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE stream (
    pid, context, stream, PRIMARY KEY (pid, context, stream)) WITHOUT ROWID;
CREATE TEMP TABLE node (id PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE string (id PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE label (old PRIMARY KEY, new) WITHOUT ROWID
"""


@dataclass
class Copied:
    """What the copy has done so far: rows in the source and kept, and what was left out."""

    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    emptied: list[str] = field(default_factory=list)
    replaced: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Copier:
    """Copies an export into an extract of it."""

    database: Database
    extract: Extract
    allowed: Allowed
    chosen: Chosen | None
    is_scrubbed: bool
    copied: Copied = field(default_factory=Copied)

    def copy(self) -> Copied:
        """Copy everything; work first, because what else is kept depends on it."""
        self._prepare()
        for entry in self.allowed.tables:
            self._copy_allowed(entry)
            if entry.name == schema.RUNTIME:
                self._note_what_was_kept()
        self._copy_strings()
        if not self.is_scrubbed:
            self._copy_the_rest()
        return self.copied

    @property
    def selection(self) -> Selection:
        """What is kept, for the conditions on rows."""
        has_strays = self.chosen is not None and self.chosen.has_strays
        return Selection(self.chosen is not None, self.is_scrubbed, has_strays)

    def _prepare(self) -> None:
        """The temporary tables and functions that the copying statements use."""
        for statement in _TEMPORARY.split(";"):
            self.extract.change(statement)
        rules: dict[str, Rule] = dict(text_rules(self.allowed))
        rules |= {name.casefold(): key_rule(keys) for name, keys in self.allowed.keys.items()}
        rules["export_meta_data"] = rules["meta_data_export"]
        for name, rule in rules.items():
            define(self.extract, f"told_{name}", _on_bytes(rule))
        if self.chosen is None:
            return
        self.extract.fill("INSERT INTO run VALUES (?, ?, ?)", self.chosen.runs.iter_rows())
        self.extract.fill("INSERT INTO span VALUES (?, ?)", self.chosen.spans.iter_rows())
        labels = self.chosen.other_labels.unique().iter_rows()
        self.extract.fill("INSERT INTO other_label VALUES (?, ?)", labels)
        if self.chosen.has_strays:
            self._note_calls()

    def _note_calls(self) -> None:
        """All calls, to tell work that has none."""
        table = schema.find(self.database, schema.RUNTIME)
        if table is not None:
            self.extract.change(
                f"INSERT OR IGNORE INTO call SELECT {process(table)},"
                f" {column(table, 'correlationId')} FROM source.{quote(table.name)}"
                f" WHERE {column(table, 'correlationId')} IS NOT NULL"
            )

    def _copy_allowed(self, entry: AllowedTable) -> None:
        table = schema.find(self.database, entry.name)
        if table is None or table.is_virtual:
            return
        if entry.name in _NODES and self._has_too_many_nodes(table):
            return
        if entry.texts.get("text") == "label":
            self._note_labels(table)
        where = condition(entry.rows, table, self.selection)
        values = dict(self._values(table, entry)) if self.is_scrubbed else {}
        self._copy_table(table, where, values)

    def _copy_table(self, table: Table, where: str, values: Mapping[str, str]) -> None:
        """A table without kept rows is left out, as nsys does; ``values`` are SQL expressions."""
        name, columns = quote(table.name), table.columns.values()
        source = f"source.{name} AS original"
        ((there_are, wanted),) = self.extract.rows(
            f"SELECT count(*), (SELECT EXISTS (SELECT 1 FROM {source} WHERE {where})) FROM {source}"
        )
        if not wanted:
            return
        self.extract.create(table.name, columns)
        selected = ", ".join(values.get(one.name, quote(one.name)) for one in columns)
        order = " ORDER BY original.rowid" if table.has_rowid else ""
        rows = self.extract.change(
            f"INSERT INTO main.{name} SELECT {selected} FROM {source} WHERE {where}{order}"
        )
        self.copied.rows[table.name] = (there_are, rows)

    def _values(self, table: Table, entry: AllowedTable) -> Iterator[tuple[str, str]]:
        """What is copied of each column of a scrubbed table."""
        numbers = {name.casefold() for name in (*entry.numbers, *entry.strings)}
        texts = {name.casefold(): rule for name, rule in entry.texts.items()}
        for key, one in table.columns.items():
            if key in numbers:
                yield one.name, f"{quote(one.name)} + 0"
            elif texts.get(key) == "label":
                yield one.name, f"(SELECT new FROM temp.label WHERE old = {self._label(table)})"
            elif key in texts:
                rule = table.name.casefold() if texts[key] == "key" else texts[key]
                told = f"told_{rule}(CAST({quote(one.name)} AS BLOB))"
                yield one.name, f"coalesce({told}, {_nothing(one)})"
            else:
                self.copied.emptied.append(f"{table.name}.{one.name}")
                yield one.name, _nothing(one)

    def _label(self, table: Table) -> str:
        has_strings = schema.find(self.database, schema.STRINGS) is not None
        return _label(table, has_strings=has_strings)

    def _note_labels(self, table: Table) -> None:
        """What is told of each label: they are few, where their rows may be millions."""
        if not self.is_scrubbed:
            return
        where = condition("ranges", table, self.selection)
        found = self.extract.rows(
            f"SELECT {self._label(table)} AS told FROM source.{quote(table.name)} AS original"
            f" WHERE {where} AND told IS NOT NULL GROUP BY told ORDER BY min(original.start), told"
        )
        told = list(tell_labels((raw for (raw,) in found), self.allowed))
        self.extract.fill("INSERT INTO label VALUES (?, ?)", told)
        replaced = sum(raw.decode("utf-8", "replace") != new for raw, new in told)
        if replaced:
            self.copied.replaced[table.name] = replaced

    def _note_what_was_kept(self) -> None:
        for name in (*_WORK, schema.RUNTIME):
            table = schema.find(self.database, name)
            if table is None or table.name not in self.copied.rows:
                continue
            rows = f"main.{quote(table.name)}"
            self.extract.change(
                f"INSERT OR IGNORE INTO process SELECT DISTINCT {process(table)} FROM {rows}"
            )
            if name != schema.RUNTIME:
                key = [column(table, one) for one in ("contextId", "streamId")]
                self.extract.change(
                    f"INSERT OR IGNORE INTO stream SELECT DISTINCT {process(table)} & 0xFFFFFF,"
                    f" coalesce({key[0]}, 0), coalesce({key[1]}, 0) FROM {rows}"
                )
                node = column(table, "graphNodeId")
                self.extract.change(
                    f"INSERT OR IGNORE INTO node SELECT DISTINCT {node} FROM {rows}"
                    f" WHERE {node} IS NOT NULL"
                )

    def _has_too_many_nodes(self, table: Table) -> bool:
        where = condition("nodes", table, self.selection)
        ((rows,),) = self.extract.rows(
            f"SELECT count(*) FROM source.{quote(table.name)} WHERE {where}"
        )
        return where != "1" and rows > _MOST_NODE_ROWS

    def _copy_strings(self) -> None:
        """The strings that kept rows name; the table also holds paths and log texts."""
        table = schema.find(self.database, schema.STRINGS)
        if table is None:
            return
        if not self.is_scrubbed:
            self._copy_table(table, "1", {})
            return
        for entry in self.allowed.tables:
            named = schema.find(self.database, entry.name)
            for name in entry.strings if named and named.name in self.copied.rows else ():
                assert named is not None  # noqa: S101 - see above
                if name.casefold() in named.columns:
                    self.extract.change(
                        f"INSERT OR IGNORE INTO string SELECT DISTINCT {column(named, name)}"
                        f" FROM main.{quote(named.name)} WHERE {column(named, name)} IS NOT NULL"
                    )
        told = "told_name(CAST(value AS BLOB))"
        self._copy_table(table, "id IN temp.string", {"value": told})

    def _copy_the_rest(self) -> None:
        """Without scrubbing, tables that nobody has named; those of calls by their calls."""
        named = {entry.name.casefold() for entry in self.allowed.tables}
        for key, table in self.database.tables.items():
            is_ours = key in named or key == schema.STRINGS.casefold()
            if is_ours or key.startswith("sqlite_") or table.is_virtual:
                continue
            by_call = "correlationid" in table.columns and not _GLOBAL_IDS.isdisjoint(table.columns)
            where = condition("calls" if by_call else "all", table, self.selection)
            self._copy_table(table, where, {})


def _label(table: Table, *, has_strings: bool) -> str:
    """The label of an NVTX row, as bytes: it stands in the row or in StringIds."""
    text = "original.text" if "text" in table.columns else "NULL"
    by_id = "NULL"
    if has_strings and "textid" in table.columns:
        by_id = "(SELECT value FROM source.StringIds WHERE id = original.textId)"
    return f"CAST(coalesce({text}, {by_id}) AS BLOB)"


def _nothing(one: Column) -> str:
    """What stands in a column whose values are not copied."""
    if not one.not_null:
        return "NULL"
    return "''" if affinity(one) == "TEXT" else "0"


def _on_bytes(rule: Rule) -> Callable[[bytes | None], str | None]:
    """The rule as SQL calls it: on bytes, which may be no UTF-8."""
    return lambda raw: None if raw is None else rule(raw.decode("utf-8", "replace"))
