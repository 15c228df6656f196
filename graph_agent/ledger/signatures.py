"""The signatures of functions that others wrote, with their annotations as objects."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

_AS_WRITTEN: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    import annotationlib

    # Without it one annotation that names nothing would be an error of the whole signature.
    _AS_WRITTEN = {"annotation_format": annotationlib.Format.FORWARDREF}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature without what the function returns. Raises TypeError for an annotation that names nothing."""
    signature = inspect.signature(function, **_AS_WRITTEN)
    read = [one.replace(annotation=_read(function, one)) for one in signature.parameters.values()]
    return signature.replace(parameters=read, return_annotation=inspect.Signature.empty)


def _read(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    written = getattr(parameter.annotation, "__forward_arg__", parameter.annotation)
    if not isinstance(written, str):
        return written
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inner.func
    names = {one.__name__: one for one in getattr(inner, "__type_params__", ())}
    try:
        return eval(written, getattr(inner, "__globals__", {}), names)
    except Exception as error:
        where = f"the annotation of '{parameter.name}' of {function.__name__}"
        raise TypeError(f"{where} cannot be read: {error}") from error
