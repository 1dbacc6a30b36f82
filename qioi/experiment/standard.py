"""The `standard` length: shorter windows and fewer points, so that the papers' figures fit into half a day's work."""

from __future__ import annotations

from qioi.experiment.form import checked
from qioi.experiment.plan import only
from qioi.experiment.spec import ExperimentSpec, Timing

#: What the experiments of the papers' figures take at most, and those of QiOi's own questions beside them: by their
#: plans' estimates, with three repeats each.
PAPERS_HOURS, OWN_HOURS = 4.0, 2.0
#: What stands in place of a paper in the files of QiOi's own.
OWN = ("beyond the papers", "QiOi")


def at_standard(spec: ExperimentSpec) -> tuple[ExperimentSpec, Timing]:
    """Reduce an experiment to its standard points, and give its standard times. SpecError: these are too short.

    The times that the file has for a whole run stay in the experiment, so that its page can name them.
    """
    short = spec.standard
    if short is None:
        return spec, spec.timing
    times = {"warmup": short.warmup, "duration": short.duration, "cooldown": short.cooldown}
    times |= {"sample": spec.timing.sample, "profile": min(spec.timing.profile, short.duration)}
    timing = checked(Timing, times, spec.name, "standard")
    return only(spec, short.loads, short.arms, short.networks), timing
