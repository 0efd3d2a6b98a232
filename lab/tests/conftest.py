"""Settings of the property tests: the same examples every time, and no clock in a verdict.

And one thread for small matrices: NumPy's threads wait for each other by spinning, which takes many times as long where
other programs want the cores too.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is loaded, so before anything else is

from hypothesis import settings

settings.register_profile("lab", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("lab")
