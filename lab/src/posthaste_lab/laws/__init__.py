"""Operational laws: relations that hold for every system observed long enough, whatever it is made of.

So a table that breaks one contains a mistake, not a discovery. `check` gives a verdict for every law that applies to a
run's figures; `audit` finds the impossible in any table of figures. Denning and Buzen, ACM Computing Surveys 10 (1978);
Jain (1991), chapter 33.
"""

from posthaste_lab.laws.audit import audit, compared
from posthaste_lab.laws.findings import Finding
from posthaste_lab.laws.operational import (
    Verdict,
    check,
    forced_flow,
    interactive,
    little,
    population,
    service,
    utilization,
)

__all__ = [
    "Finding",
    "Verdict",
    "audit",
    "check",
    "compared",
    "forced_flow",
    "interactive",
    "little",
    "population",
    "service",
    "utilization",
]
