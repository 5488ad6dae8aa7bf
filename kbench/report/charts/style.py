"""A colour and a marker for each method, which are the same in every chart of a report.

The first seven colours follow Paul Tol's "bright" scheme (https://sronpersonalpages.nl/~pault/),
which is made for readers with any kind of colour vision; four of them are darker here, for contrast
with a white page. The others serve charts of more than seven lines. Eleven colours and nine markers
have no common divisor, so that 99 methods differ in colour or marker.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Each colour for a light background and, lightened, for a dark one. Its contrast with the
# background is at least 3 (WCAG 2.1, success criterion 1.4.11).
COLOURS = (
    ("#4477aa", "#7aa6d6"),
    ("#c2384f", "#f0808d"),
    ("#228833", "#5cb96b"),
    ("#aa3377", "#d678ad"),
    ("#998a12", "#d8c94a"),
    ("#1f8fae", "#7cd3ee"),
    ("#6f6f6f", "#b4b4b4"),
    ("#d0590a", "#ff9a52"),
    ("#5a3fc0", "#a593ff"),
    ("#17191c", "#ffffff"),
    ("#7a4a22", "#c99a6e"),
)

# SVG path data of the markers, in a square of side 12 around the origin.
MARKERS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5 3.8H-5z",
    "M0-5.6L5 0L0 5.6L-5 0z",
    "M0 5.2L5-3.8H-5z",
    "M-1.7-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
    "M-3-5.2L0-2.2L3-5.2L5.2-3L2.2 0L5.2 3L3 5.2L0 2.2L-3 5.2L-5.2 3L-2.2 0L-5.2-3z",
    "M-4.5-5h9L-4.5 5h9z",
    "M0-5.8L1.5-1.9L5.6-1.8L2.4.8L3.5 4.8L0 2.5L-3.5 4.8L-2.4.8L-5.6-1.8L-1.5-1.9z",
)


@dataclass(frozen=True)
class Style:
    """Indices into `COLOURS` and `MARKERS`."""

    colour: int
    marker: int


def distinct_styles(groups: Iterable[Iterable[str]]) -> dict[str, Style]:
    """A style for each name, such that names of a group differ in colour while colours suffice.

    Names get styles in the order of the groups, the largest first. A name takes the colour and the
    marker that are rarest among the names in its groups; ties are decided by the use in all groups.
    """
    ordered = sorted((tuple(dict.fromkeys(group)) for group in groups), key=len, reverse=True)
    styles: dict[str, Style] = {}
    for name in dict.fromkeys(name for group in ordered for name in group):
        members = {other for group in ordered if name in group for other in group} & set(styles)
        in_groups = [styles[other] for other in sorted(members)]
        used = list(styles.values())
        styles[name] = Style(
            _rarest(range(len(COLOURS)), [s.colour for s in in_groups], [s.colour for s in used]),
            _rarest(range(len(MARKERS)), [s.marker for s in in_groups], [s.marker for s in used]),
        )
    return styles


def _rarest(choices: Iterable[int], in_groups: Sequence[int], used: Sequence[int]) -> int:
    """The choice that is least frequent in `in_groups`, of these the least frequent in `used`."""
    return min(choices, key=lambda choice: (in_groups.count(choice), used.count(choice), choice))


def styles(methods: Iterable[str]) -> dict[str, Style]:
    """A style for each method, by its place in alphabetical order."""
    return {
        method: Style(i % len(COLOURS), i % len(MARKERS))
        for i, method in enumerate(sorted(set(methods)))
    }
