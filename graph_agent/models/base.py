"""The base class of all models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError, ValidationInfo

from graph_agent.models.canonical import canonical_json


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is a time that UTC does not have") from None


UtcDatetime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A timezone-aware time, converted to UTC."""


def _check_not_blank(value: str, info: ValidationInfo) -> str:
    if not value.strip():
        raise ValueError(f"{info.field_name} must not be empty")
    return value


NotBlank = Annotated[str, AfterValidator(_check_not_blank)]
"""A text with at least one visible character."""


def first_violation(exc: ValidationError) -> str:
    """Return the message of the first error, without the value, which may be secret."""
    return exc.errors(include_url=False, include_input=False, include_context=False)[0]["msg"].removeprefix("Value error, ")


def located_violation(exc: ValidationError) -> str:
    """Return the message of the first error after the path of its field, if it has one."""
    path = ".".join(str(step) for step in exc.errors(include_url=False, include_input=False, include_context=False)[0]["loc"])
    return f"{path}: {first_violation(exc)}" if path else first_violation(exc)


def nearest_name(written: str, names: Iterable[str], similarity: float) -> str | None:
    """Return the one of `names` whose letters are most like those that were written; None below this share of equal ones."""
    by_letters = {re.sub(r"[^a-z]", "", name.lower()): name for name in names}
    close = get_close_matches(re.sub(r"[^a-z]", "", written.lower()), by_letters, 1, similarity)
    return by_letters[close[0]] if close else None


class Frozen(BaseModel):
    """Immutable plain data. Unknown fields are rejected; hashable even with lists and dicts in its fields.

    A subclass that is declared with `kw_only=False` also accepts its fields by position, as a dataclass does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    _by_position: ClassVar[bool] = False

    def __init_subclass__(cls, *, kw_only: bool = True, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls._by_position = not kw_only

    def __init__(self, /, *arguments: Any, **fields: Any) -> None:
        if not arguments:
            # As pydantic's own `__init__` does; calling that takes longer than the validation of a small model.
            self.__pydantic_validator__.validate_python(fields, self_instance=self)
            return
        names = list(type(self).model_fields) if self._by_position else []  # `model_fields` is slow
        if len(arguments) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} positional arguments, but {len(arguments)} were given")
        super().__init__(**dict(zip(names, arguments, strict=False)), **fields)

    # Pydantic's own mark: validation builds the model directly and does not call this `__init__`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # functions have no such declared attribute

    def to_json(self) -> dict[str, Any]:
        """Return this model as plain JSON values."""
        plain: dict[str, Any] = self.__pydantic_serializer__.to_python(self, mode="json")  # as `model_dump`, in half the time
        return plain

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes`, validated again."""
        return type(self).model_validate({**dict(self), **changes})

    def __hash__(self) -> int:
        return hash(canonical_json(self.to_json()))
