"""Posthaste's laboratory: models, statistics and laws for measured systems.

Four rooms, each usable alone:

- `queueing`: what a system should do, from textbook models that stay right for thousands of clients;
- `stats`: what a sample says and how surely;
- `factorial`: which factors matter, in designs with two levels or more;
- `laws`: whether figures can be true at all.

Units are seconds and per second, unless a name says otherwise.
"""

from posthaste_lab import factorial, laws, queueing, stats

__all__ = ["factorial", "laws", "queueing", "stats"]
