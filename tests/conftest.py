"""Settings of the whole suite."""

from hypothesis import settings

# How fast an example runs says nothing on a busy machine: timing never decides a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
