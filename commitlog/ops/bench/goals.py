"""What a figure has to be, and whether it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and its bound.

    Attributes:
        what: was measured, with its unit.
        measured: the median.
        bound: that it has to reach, or must not pass.
        is_least: whether more is better.
    """

    what: str
    measured: float
    bound: float
    is_least: bool

    @classmethod
    def at_least(cls, what: str, measured: float, bound: float) -> Goal:
        """More is better."""
        return cls(what, measured, bound, is_least=True)

    @classmethod
    def at_most(cls, what: str, measured: float, bound: float) -> Goal:
        """Less is better."""
        return cls(what, measured, bound, is_least=False)

    @property
    def is_reached(self) -> bool:
        """Whether the figure is what it has to be."""
        return self.measured >= self.bound if self.is_least else self.measured <= self.bound

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        bound = "at least" if self.is_least else "at most"
        return {"what": self.what, "measured": self.measured, bound: self.bound, "reached": self.is_reached}

    def as_row(self) -> tuple[str, str, str, str]:
        """For people."""
        sign = ">=" if self.is_least else "<="
        return (
            self.what,
            _rounded(self.measured),
            f"{sign} {_rounded(self.bound)}",
            "reached" if self.is_reached else "missed",
        )


def _rounded(value: float) -> str:
    """Three digits, but whole numbers whole."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
