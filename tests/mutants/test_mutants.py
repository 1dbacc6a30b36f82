"""The lists of mutants are of the sources as they are: a change of these brings its mutants along."""

from __future__ import annotations

import ast

from guard_mutants import GUARD
from idle_mutants import IDLE
from law_mutants import LAWS
from lever_mutants import LEVERS
from mutants import REPOSITORY
from slice_mutants import SLICES
from tenant_mutants import CONTENDERS
from trial_mutants import TRIALS


def test_each_stands_once_in_its_file_and_has_a_name_of_its_own() -> None:
    mutants = [*GUARD, *SLICES, *LEVERS, *LAWS, *TRIALS, *CONTENDERS, *IDLE]
    for mutant in mutants:
        mutated = mutant.mutated((REPOSITORY / mutant.file).read_text())
        assert ast.parse(mutated).body, mutant.name  # where it is no program, no test runs
    assert len({mutant.name for mutant in mutants}) == len(mutants)
