"""Settings of the property tests: the same examples every time, and no clock in a verdict."""

from hypothesis import settings

settings.register_profile("lab", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("lab")
