"""Recipes: the settings of a whole lifecycle as one typed value, and the plan that follows from it."""

from typing import Self

from pydantic import BaseModel, ConfigDict

from flows.overrides import apply
from flows.plan import Step


class Recipe(BaseModel):
    """One field per stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def changed(self, settings: list[str]) -> Self:
        """The recipe with `--set` applied."""
        return apply(self, settings)

    def steps(self) -> tuple[Step, ...]:
        """The plan."""
        return ()


RECIPES = {"demo": Recipe, "tiny": Recipe}
