"""Designed experiments: which factors matter, by how much, and how surely.

The model is y = q0 + qA xA + qB xB + qAB xA xB + … + e with x = -1 or +1. An effect q is half of the change of y from
the low to the high level; some books print 2q instead. Jain, The Art of Computer Systems Performance Analysis (1991),
chapters 16 to 22.
"""

from posthaste_lab.factorial.aliases import Aliases, aliases
from posthaste_lab.factorial.anova import AnovaRow, OneFactor, TwoFactor, one_factor, two_factor
from posthaste_lab.factorial.design import collect, design
from posthaste_lab.factorial.effects import Contrast, Effects, Prediction, analyze
from posthaste_lab.factorial.general import General, general
from posthaste_lab.factorial.lenth import lenth_margin
from posthaste_lab.factorial.plots import plot_residuals

__all__ = [
    "Aliases",
    "AnovaRow",
    "Contrast",
    "Effects",
    "General",
    "OneFactor",
    "Prediction",
    "TwoFactor",
    "aliases",
    "analyze",
    "collect",
    "design",
    "general",
    "lenth_margin",
    "one_factor",
    "plot_residuals",
    "two_factor",
]
