"""The `standard` length: shorter windows and fewer points, so that all experiments fit into :data:`HOURS`."""

from __future__ import annotations

from qioi.experiment.plan import only
from qioi.experiment.spec import ExperimentSpec, Timing

#: What all bundled experiments together take at most, by their plans' estimates, with three repeats each.
HOURS = 4.5


def at_standard(spec: ExperimentSpec) -> tuple[ExperimentSpec, Timing]:
    """Reduce an experiment to its standard points, and give its standard times.

    The times that the file has for a whole run stay in the experiment, so that its page can name them.
    """
    short = spec.standard
    if short is None:
        return spec, spec.timing
    times = {"warmup": short.warmup, "duration": short.duration, "cooldown": short.cooldown}
    timing = spec.timing.model_copy(update={**times, "profile": min(spec.timing.profile, short.duration)})
    return only(spec, short.loads, short.arms, short.networks), timing
