"""What every model of the package has in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

from graph_agent.models.canonical import canonical_json


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


UtcDatetime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""An aware time, always in UTC."""


class Frozen(BaseModel):
    """Plain data: replaced, never changed; unknown fields are refused; hashable although it may hold lists and dicts."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """This model as plain JSON values."""
        return self.model_dump(mode="json")

    def replace(self, **changes: Any) -> Self:
        """A copy with `changes`, validated again."""
        return type(self).model_validate({**dict(self), **changes})

    def __hash__(self) -> int:
        return hash(canonical_json(self.to_json()))
