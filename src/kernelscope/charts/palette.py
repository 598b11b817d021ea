"""The colours of categories and pages, from ``palette.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

LIGHT, DARK = "light", "dark"
THEMES = (LIGHT, DARK)


@dataclass(frozen=True)
class Theme:
    """The colours of a page, as ``"#rrggbb"``.

    Attributes:
        name: :data:`LIGHT` or :data:`DARK`.
        background: of the page.
        text: of titles and labels.
        muted: of what stands back: axis titles, rules.
        line: of axes and grids.
        categories: category (or family) -> its colour.
    """

    name: str
    background: str
    text: str
    muted: str
    line: str
    categories: Mapping[str, str]

    def colours(self, categories: list[str]) -> list[str]:
        """The colour of each category; of one that the palette does not know, that of unknown."""
        unknown = self.categories["unknown"]
        return [self.categories.get(category, unknown) for category in categories]


@cache
def theme(name: str) -> Theme:
    """The light or the dark page; KeyError for another name."""
    table = tomllib.loads(resources.files(__package__).joinpath("palette.toml").read_text("utf-8"))
    colours = {category: shades[name] for category, shades in table["categories"].items()}
    return Theme(name, **table["page"][name], categories=colours)


def light_to_dark() -> dict[str, str]:
    """Each colour of the light page -> what stands in its place on the dark one."""
    light, dark = theme(LIGHT), theme(DARK)
    page = {
        getattr(light, part): getattr(dark, part)
        for part in ("background", "text", "muted", "line")
    }
    return page | {light.categories[name]: dark.categories[name] for name in light.categories}
