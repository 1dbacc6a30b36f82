"""What of a user's Caliper files is read here, as models; everything else in them is Caliper's own matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from qioi.processes.errors import LabError
from qioi.settings import documents


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)


class _Contract(_Part):
    id: str
    contractID: str | None = None  # noqa: N815 - Caliper's keys


class _Channel(_Part):
    channelName: str  # noqa: N815
    contracts: list[_Contract] | None = None


class _Organization(_Part):
    mspid: str


class Network(_Part):
    """A network file of Caliper's Fabric connector."""

    version: object
    caliper: object
    channels: list[_Channel]
    organizations: Annotated[list[_Organization], Field(min_length=1)]


class _RateControl(_Part):
    type: str
    opts: dict[str, Any] | None = None


class _Workload(_Part):
    module: str
    arguments: dict[str, Any] | None = None


class _Round(_Part):
    label: str
    rateControl: _RateControl  # noqa: N815
    workload: _Workload


class _Test(_Part):
    workers: dict[str, Any] | None = None
    rounds: Annotated[list[_Round], Field(min_length=1)]

    @field_validator("rounds")
    @classmethod
    def _labels_differ(cls, rounds: list[_Round]) -> list[_Round]:
        # Caliper tells results by the label alone, so two rounds of one label would count as one.
        for label, count in Counter(one.label for one in rounds).items():
            if count > 1:
                raise ValueError(f"accepted are rounds with a label each: {count} are named {label}")
        return rounds


class _Monitors(_Part):
    transaction: list[Any] | None = None


class Benchmark(_Part):
    """A benchmark file."""

    test: _Test
    monitors: _Monitors | None = None


def check(model: type[Network] | type[Benchmark], document: Mapping[str, Any], path: Path) -> None:
    """Raise LabError for what is wrong: file, key, value, and what is accepted."""
    try:
        documents.check(model, document, path)
    except documents.ConfigError as error:
        raise LabError(str(error)) from error
