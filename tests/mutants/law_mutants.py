"""Mistakes of the control laws: what they take for need, when they raise and release, and what a channel is owed."""

from __future__ import annotations

from mutants import Sources

of = Sources("controller/laws", ("tests/controller/laws",)).mutants

NEED = of(
    "need.py",
    ("need: waiting behind the ledger counts", "max(0.0, delay.wait) * part / delay.interval", "max(0.0, delay.wait)"),
    (
        "need: fifty in line count fifty times",
        "return (run, wait) if wait <= most else (run + wait - most, most)",
        "return (run, wait)",
    ),
    (
        "need: an unknown host has nobody foreign",
        "return 1.0 if host is None else host.waited_part",
        "return 0.0 if host is None else host.waited_part",
    ),
    ("need: a moment's room is room", "over = host.lasting or host", "over = host"),
    ("need: idle CPU alone is room", "return over.idle > IDLE or over.foreign < FOREIGN", "return over.idle > IDLE"),
    (
        "need: an unknown host has room",
        "    if host is None:\n        return False",
        "    if host is None:\n        return True",
    ),
    ("need: any shortfall counts", "return (shortfall(seen) or 0.0) > BELOW", "return (shortfall(seen) or 0.0) > 0"),
    ("need: a channel is active for good", "and seen.commit_age <= ACTIVE)", ")"),
)

READINGS = Sources("qioi/model", ("tests/controller/laws",)).mutants(
    "readings.py",
    (
        "need: waits end in moments in which others had nothing",
        "return self.foreign_part if self.lasting is None else max(self.foreign_part, self.lasting.foreign_part)",
        "return self.foreign_part",
    ),
)

ADAPTIVE = of(
    "adaptive.py",
    (
        "adaptive: raises a tenant that has more than it is owed",
        "if error is not None and error < -tuning.surplus:",
        "if False:",
    ),
    ("adaptive: does not wait for a raise's effect", "if seen.now - memory.raised_at < tuning.settle:", "if False:"),
    (
        "adaptive: goes no farther beside heavy neighbours",
        "growth = min(self.stride - 1,",
        "growth = min(tuning.step_cap - 1,",
    ),
    ("adaptive: raises without a dead band", "if growth < tuning.dead_band:", "if False:"),
    (
        "adaptive: leaves a shortfall out of the step",
        "odds(need) / odds(target) - 1, error or 0.0",
        "odds(need) / odds(target) - 1, 0.0",
    ),
    (
        "adaptive: aims no lower below the threshold",
        "target = tuning.low if below else tuning.high",
        "target = tuning.high",
    ),
    ("adaptive: follows up no urgent raise", "if urgent or unfinished:", "if urgent:"),
    ("adaptive: keeps a share while nobody is there", "return self._room(seen, elapsed) or kept", "return kept"),
    ("adaptive: holds stale input for good", "if since <= self.tuning.hold:", "if True:"),
    ("adaptive: releases at once", "now - memory.room_since < tuning.room_for:", "False:"),
    ("adaptive: forgets that a release hurt", "        if now < memory.release.until:\n", "        if False:\n"),
    (
        "adaptive: a raise is room as well",
        "            room_since=None,  # what is needed now",
        "            # what is needed now",
    ),
    ("adaptive: a neighbour that comes late is a relapse", "release = release._replace(wait=0.0)", "pass"),
    ("adaptive: probes where it is just enough", "if memory.slow.need > tuning.low or is_below(seen):", "if False:"),
    (
        "adaptive: probes below the default",
        "share = max(self.rest, memory.share * (1 - tuning.probe_step))",
        "share = memory.share * (1 - tuning.probe_step)",
    ),
    (
        "adaptive: winds up what was not given",
        "        if self.memory.share <= share:\n            return self\n",
        "        return self\n",
    ),
    (
        "adaptive: the last of a release takes for ever",
        "if abs(share - self.rest) <= self.tuning.dead_band * self.rest:",
        "if False:",
    ),
    ("adaptive: a probe may follow a release at once", "_replace(wait=wait, until=now + wait)", "_replace(wait=wait)"),
)

BEYOND = of(
    "beyond.py",
    (
        "beyond: a raise never shows that neighbours have come",
        "if raised or (self.factor is not None",
        "if (self.factor is not None",
    ),
    ("beyond: who did more than T once does so for good", " and now - one.more_at <= REMEMBERED\n", "\n"),
    ("beyond: A alone is what the first neighbours leave", "alone=max(before, rate.value))", "alone=rate.value)"),
    (
        "beyond: at its default share a channel is bounded",
        "if not state.room and state.in_force < MOVED:",
        "if False:",
    ),
    ("beyond: a stalled channel stays bounded", "if (reading.silence or 0.0) > STALLED:", "if False:"),
    (
        "beyond: never forgets what a leg has shown",
        "if moved or state.room != self.room or owed != self.owed:",
        "if moved:",
    ),
    ("beyond: does not see a leg change", "if rate.seconds >= 2 * LONG and (late", "if False and (late"),
    ("beyond: bounds who does less alone", "late.value < AIM * self.owed:", "False:"),
    (
        "beyond: owes its users nothing",
        "                debt = self._indebted(block, owed, state)\n",
        "                pass\n",
    ),
    ("beyond: who is sent less alone has a debt", "if self.room and state.room:", "if False:"),
    ("beyond: a debt is not bounded", "return min(DEBT * owed, max(", "return (max("),
    ("beyond: a stall makes no debt", "blocks=one.blocks[-1:]", "blocks=()"),
    ("beyond: what is left of a debt is greed", "least, rate = LONG, rate_of", "least, rate = SOON, rate_of"),
    ("beyond: never lets go at the ceiling", "            if here >= state.most:\n", "            if False:\n"),
    (
        "beyond: legs that disagree are kept",
        "            legs, curve = (), fit((leg,), state.most, self.alone)\n",
        "            pass\n",
    ),
    (
        "beyond: forgets what was enough beside the last ones",
        "if self.beside is None and self.alone is not None:",
        "if self.alone is not None:",
    ),
    (
        "beyond: what was enough for another threshold is enough",
        "replace(one, beside=None, more_at",
        "replace(one, more_at",
    ),
    (
        "beyond: more than another threshold is more than this one",
        "beside=None, more_at=-math.inf)",
        "beside=None)",
    ),
    ("beyond: begins beside neighbours at the default", "factor=first, beside=first", "beside=first"),
    ("beyond: goes down without caution", "surely = aim * (1 + CAUTION", "surely = aim * (1 + 0.0"),
    (
        "beyond: A leaves out the seconds since the last block",
        "counted_silence([one.time for one in inside], now)",
        "0.0",
    ),
    ("beyond: less is given as soon as more", "(rate.seconds >= LESS or here >= state.most)", "True"),
)

CURVE = of(
    "curve.py",
    ("curve: what is far counts as what is near", "shown.noise**2 + old**2 + far**2", "shown.noise**2 + old**2"),
    ("curve: what is old counts as what is new", "shown.noise**2 + old**2 + far**2", "shown.noise**2 + far**2"),
    ("curve: noise makes one that falls", "half = LEAST if slope < LEAST * level else MOST", "half = MOST"),
    (
        "curve: does not know the peak by A alone",
        "    if alone is not None:\n        peak",
        "    if False:\n        peak",
    ),
    ("curve: guesses at the same end", "if shown.factor > math.sqrt(most) else most", "if True else most"),
    ("curve: more than the peak is reached", "if left > 0 else math.inf", "if left > 0 else 1.0"),
)

THRESHOLDS = of(
    "thresholds.py",
    (
        "thresholds: what was learned bounds a load that grows",
        "return max(self.value, throughput)",
        "return self.value",
    ),
    ("thresholds: a container that goes takes an operator's word", "not in (before, NOTHING):", "!= before:"),
    (
        "thresholds: an operator's word is for good",
        "                del self._set[channel]\n",
        "                pass\n",
    ),
    (
        "thresholds: log and endpoint teach one learner",
        '(channel, reading.source if reading else "log")',
        '(channel, "log")',
    ),
    ("thresholds: auto by the socket is not learned", "not (ordered or policy.auto)", "not policy.auto"),
    ("thresholds: an order is told of as the configuration", '"socket" if ordered else', '"socket" if False else'),
    (
        "thresholds: others' components teach",
        "[delays[name] for name in its if name in delays]",
        "list(delays.values())",
    ),
)

PROPORTIONAL = of(
    "proportional.py",
    ("proportional: holds stale input for good", "if seen.now - self.known_at <= STALE:", "if True:"),
    ("proportional: forgets k", "self.default * self.k * error", "self.default * error"),
    ("proportional: falls back at T", "if throughput >= threshold:", "if throughput > threshold * 1.5:"),
)

ALIKE = of(
    "alike.py",
    ("alike: who is active and who is not are one kind", "kind = (is_active(seen), silence", "kind = (silence"),
    (
        "alike: never heard and silent are one kind",
        "is_active(seen), silence is None, presumed",
        "is_active(seen), presumed",
    ),
    ("alike: presumed and heard are one kind", "silence is None, presumed, level", "silence is None, level"),
    ("alike: below T and at T are one kind", "presumed, level, beside)", "presumed, beside)"),
    ("alike: what is beside makes no kind", "presumed, level, beside)", "presumed, level)"),
    ("alike: at the edge of a surplus is a surplus", "1 if error < _SURPLUS", "1 if error <= _SURPLUS"),
    ("alike: at the edge of T is below T", "2 if error <= BELOW", "2 if error < BELOW"),
    ("alike: an unknown error is a level of T", "0 if error is None", "2 if error is None"),
    (
        "alike: equal shares make equal laws",
        "low == high and least.shares == most.shares",
        "least.shares == most.shares",
    ),
    ("alike: equal laws make equal shares", "low == high and least.shares == most.shares", "low == high"),
    ("alike: those between are never asked", "alike = low == high and", "alike = True or"),
    ("alike: those between are always asked", "alike = low == high and", "alike = False and"),
    ("alike: only one end is asked", "for pick in (min, max)]", "for pick in (min, min)]"),
    (
        "alike: laws that came to the same stay two",
        "                law = after[law.memory]\n",
        "                pass\n",
    ),
    (
        "alike: one memory makes one law, whatever its bounds",
        "after.setdefault(law.memory, law) == law:",
        "after.setdefault(law.memory, law):",
    ),
    ("alike: Algorithm 1 is asked once for all", "if isinstance(laws[its[0]], Adaptive):", "if True:"),
    ("alike: all laws of a component are one", "key = id(laws[channel]), views[channel]", "key = 0, views[channel]"),
    ("alike: kinds of one law are one", "kinds.setdefault((number, kind), {})", "kinds.setdefault((number, 0), {})"),
    tests=("tests/controller/laws/test_alike.py",),
)

UNHEARD = of(
    "unheard.py",
    ("unheard: no doubt", "doubtful is not None and now - doubtful >= DOUBTS", "False"),
    ("unheard: a doubt is a trial at once", "now - doubtful >= DOUBTS", "True"),
    (
        "unheard: a doubt needs no work",
        "one.cpus >= WORKS and one.rates.need >= WAITS\n\n\n",
        "one.rates.need >= WAITS\n\n\n",
    ),
    ("unheard: a few are most of them", "max(SEVERAL, MOST * len(works))", "SEVERAL"),
    ("unheard: one is several", "max(SEVERAL, MOST * len(works))", "MOST * len(works)"),
    (
        "unheard: most are believed again at once",
        "if may_begin and most_wait(works.values()):",
        "if most_wait(works.values()):",
    ),
    (
        "unheard: doubts come as often as ever",
        "self.doubts.hurt(now, PAUSE, RARELY)",
        "self.doubts.hurt(now, PAUSE, PAUSE)",
    ),
    ("unheard: what came of a doubt holds for all", "self.again if self.since is None else now + PAUSE", "now + PAUSE"),
    (
        "unheard: a break is none",
        "(now if self.doubtful is None else self.doubtful) if in_doubt else None",
        "now if self.doubtful is None else self.doubtful",
    ),
    tests=("tests/controller/laws/test_unheard.py",),
)

LAWS = [*NEED, *READINGS, *ADAPTIVE, *BEYOND, *CURVE, *THRESHOLDS, *PROPORTIONAL, *ALIKE, *UNHEARD]
