"""What the parts of an experiment's file have in common: strict models, and the kinds of values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from qioi.experiment.errors import SpecError
from qioi.settings import documents
from qioi.settings.salvage import Model

#: Parts of folder names, and keys of results.
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("accepted are small letters, digits and _, a letter or digit first")
    return name


Name = Annotated[str, AfterValidator(_named)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Shares = Annotated[int, Field(ge=2, le=262_144)]


class Strict(BaseModel):
    """A model without unknown keys, conversions, infinite numbers or later changes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def checked(model: type[Model], values: Mapping[str, object], experiment: str, *key: str) -> Model:
    """Make a part of an experiment of what options ask for. SpecError names the experiment, the key and what is wrong.

    A copy of a part with other values would not be checked.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = [{**one, "loc": (*key, *one["loc"])} for one in error.errors()]
        raise SpecError(documents.describe(Path(experiment), one, model) for one in wrong) from None
