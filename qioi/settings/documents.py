"""Documents that users write: YAML or JSON, checked strictly against a model, with every problem as one line.

A line has the file, the key, the value, and what is accepted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, get_args

import yaml
from pydantic import BaseModel

from qioi.kernel.regular import open_regular
from qioi.model.names import in_one_line
from qioi.settings.salvage import Model, sift
from qioi.settings.yaml_loader import DEEPEST, StrictLoader, shorten

#: What is accepted for a section.
MAPPING = "a mapping of keys to values"


class ConfigError(Exception):
    """A document cannot be used. ``problems`` are complete lines."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def check(model: type[Model], document: object, path: Path) -> Model:
    """Validate a document, or report every problem in it."""
    found, wrong, _ = sift(model, document)
    if found is None or wrong:
        raise ConfigError(describe(path, one, model) for one in wrong)
    return found


def describe(path: Path, error: Mapping[str, Any], model: type[BaseModel]) -> str:
    """Say one problem: file: key: value: what is accepted."""
    location = [str(part) for part in error["loc"] if part != "[key]"]
    key = in_one_line(".".join(location)) or "(the whole file)"
    if error["type"] == "extra_forbidden":
        return f"{path}: {key}: unknown key: accepted are {', '.join(known_keys(model, location[:-1]))}"
    if error["type"] == "missing":
        return f"{path}: {key}: missing"
    if error["type"] == "invalid_key":
        return f"{path}: {key}: a key that is no text: accepted are texts, in quotes where YAML reads another value"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if error["type"] == "float_type":
        message = "a number, without quotes (YAML takes 1e3 for a text)"
    if isinstance(error["input"], dict) and error["type"] == "value_error":  # about several keys: it names them
        return f"{path}: {key}: {message}"
    if error["type"] in ("model_type", "dict_type"):
        message = f"{MAPPING}, {{}} for one without keys" if error["input"] is None else MAPPING
    message = message if message.startswith("accepted") else f"accepted is {message}"
    return f"{path}: {key}: {shorten(error['input'])}: {message}"


def known_keys(model: type[BaseModel], location: list[str]) -> list[str]:
    """Names of the keys that are accepted at a place in the document."""
    for part in location:  # other parts are numbers in a list, or keys that users choose
        if part in model.model_fields:
            model = next(section_of(model.model_fields[part].annotation), model)
    return list(model.model_fields)


def section_of(annotation: object) -> Iterator[type[BaseModel]]:
    """Find the models in a field's type: itself, or those that it is a list, a mapping or a choice of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from section_of(inner)


def read_yaml(path: Path, *, regular: bool = False) -> object:
    """Read the file; an empty one is an empty mapping. ConfigError.

    ``regular``: what is no regular file is refused, as to open a FIFO waits for its other end.
    """
    try:
        with opened(path, regular) as file:
            document = yaml.load(file, StrictLoader)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}: accepted is a readable YAML file"]) from None
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}:" if error.problem_mark else ""
        problem = in_one_line(str(error.problem or error.context))
        raise ConfigError([f"{path}:{line} {problem}: accepted is YAML"]) from None
    except RecursionError:
        raise ConfigError([f"{path}: nested too deeply: accepted are {DEEPEST} levels"]) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # no UTF-8, or a character that there is not
        raise ConfigError([f"{path}: {str(error).splitlines()[0]}: accepted is YAML in UTF-8"]) from None
    return {} if document is None else document


def read_json(path: Path, *, regular: bool = False) -> Any:
    """Read a file that a program wrote. OSError; ValueError: it is no JSON, or nested too deeply."""
    try:
        with opened(path, regular) as file:
            return json.loads(file.read())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def opened(path: Path, regular: bool) -> BinaryIO:
    """Open a file for reading. OSError, also where it must be ``regular`` and is not."""
    return os.fdopen(open_regular(path, follow=True), "rb") if regular else path.open("rb")
