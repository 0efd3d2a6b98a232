"""Posthaste's laboratory: models, statistics and laws for measured systems.

Four packages, each usable alone:

- `queueing`: predicts a system's performance with textbook models that stay accurate for thousands of clients;
- `stats`: estimates from samples, with their uncertainty;
- `factorial`: finds the factors that matter, in designs with two levels or more;
- `laws`: checks whether figures can be true at all.

Times are in seconds and rates per second, unless a name says otherwise.
"""

from posthaste_lab import factorial, laws, queueing, stats

__all__ = ["factorial", "laws", "queueing", "stats"]
