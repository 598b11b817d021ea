"""The tables of layers, from the layer of every kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from kernelscope.layers.model import FAMILIES, KINDS, LAYERS, LEFT, OUTSIDE, Fold

_NS_PER_MS = 1e6
_PHASE = ("rank", "phase")
_PLACES = {-1 - at: kind for at, kind in enumerate(OUTSIDE)}
"""Number in place of a layer's -> kind of its row."""

PhaseKey = tuple[int, str]


def layer_table(
    work: pl.DataFrame, folds: Mapping[PhaseKey, Fold], steps: Mapping[PhaseKey, int]
) -> pl.DataFrame:
    """Kernels and time of each layer (:data:`kernelscope.layers.model.LAYERS`).

    Args:
        work: rows of steps of a folded phase: ``rank``, ``phase``, ``unit``, ``family``,
            ``kernels``, ``kernel_ns``.
        folds: the usual fold of each rank and phase.
        steps: how many complete steps each has.
    """
    sums = work.group_by(*_PHASE, "unit").agg(pl.col("kernels", "kernel_ns").sum())
    table = unit_rows(folds, steps).join(
        sums, on=[*_PHASE, "unit"], how="left", maintain_order="left"
    )
    counted = table.filter((pl.col("unit") != LEFT) | pl.col("kernels").is_not_null())
    return _per_step(counted).select(pl.col(name).cast(kind) for name, kind in LAYERS.items())


def family_table(
    work: pl.DataFrame, folds: Mapping[PhaseKey, Fold], steps: Mapping[PhaseKey, int]
) -> pl.DataFrame:
    """The same by family (:data:`kernelscope.layers.model.FAMILIES`), in launch order of layers."""
    keys = [*_PHASE, "unit", "family"]
    sums = work.group_by(keys).agg(pl.col("kernels", "kernel_ns").sum()).sort(keys)
    table = unit_rows(folds, steps).join(sums, on=[*_PHASE, "unit"], maintain_order="left_right")
    return _per_step(table).select(pl.col(name).cast(kind) for name, kind in FAMILIES.items())


def unit_rows(folds: Mapping[PhaseKey, Fold], steps: Mapping[PhaseKey, int]) -> pl.DataFrame:
    """One row per layer and outside part, in launch order."""
    before, behind, left = _PLACES.items()
    rows = []
    for (rank, phase), fold in folds.items():
        head = {"rank": rank, "phase": phase, "source": fold.source, "steps": steps[rank, phase]}
        inside = [
            (unit, layer.kind, layer.index, layer.name) for unit, layer in enumerate(fold.layers)
        ]
        rows += [
            head | dict(zip(("unit", "layer_kind", "layer_index", "layer_name"), row, strict=True))
            for row in [(*before, None, None), *inside, (*behind, None, None), (*left, None, None)]
        ]
    contract = {name: LAYERS[name] for name in _ROW} | {"steps": pl.Int64(), "unit": pl.Int64()}
    return pl.DataFrame(rows, schema=contract)


_ROW = ("rank", "phase", "source", "layer_kind", "layer_index", "layer_name")


def _per_step(table: pl.DataFrame) -> pl.DataFrame:
    kernel_ns = pl.col("kernel_ns").fill_null(0)
    whole = kernel_ns.sum().over(_PHASE)
    return table.with_columns(
        kernels=pl.col("kernels").fill_null(0) / pl.col("steps"),
        kernel_ms=kernel_ns / pl.col("steps") / _NS_PER_MS,
        share=pl.when(whole > 0).then(kernel_ns / whole).otherwise(0.0),
    )


def kind_table(
    layers: pl.DataFrame, categories: Mapping[PhaseKey, Mapping[str, Sequence[str]]]
) -> pl.DataFrame:
    """Layers added up by kind (:data:`kernelscope.layers.model.KINDS`).

    Args:
        layers: the layer table.
        categories: what each kind has in it, by rank and phase.
    """
    is_layer = pl.col("layer_index").is_not_null()
    one = pl.when(is_layer).then("kernel_ms")
    sums = layers.group_by(*_PHASE, "layer_kind", "source", maintain_order=True).agg(
        is_layer.sum().alias("layers"),
        pl.col("kernels", "kernel_ms", "share").sum(),
        layer_ms_mean=one.mean(),
        layer_ms_min=one.min(),
        layer_ms_max=one.max(),
    )
    held = [
        ", ".join(categories[rank, phase].get(kind, ()))
        for rank, phase, kind in sums.select(*_PHASE, "layer_kind").iter_rows()
    ]
    return sums.with_columns(pl.Series("categories", held, pl.String)).select(
        pl.col(name).cast(kind) for name, kind in KINDS.items()
    )
