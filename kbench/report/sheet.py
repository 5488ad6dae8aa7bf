"""A plain table of words and numbers, which every text format prints."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sheet:
    """A table below its name: the first `words` columns hold text, the others numbers."""

    name: str
    words: int
    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
