"""Charts that are readable without color, with units on every axis; axes of bars and rates begin at zero.

Lines differ by marker and dash, areas by gray and hatch; plots that are to be compared share their scale.
"""

from posthaste_lab.report.charts.effects import effects_chart, residuals_chart
from posthaste_lab.report.charts.heat import heat_chart
from posthaste_lab.report.charts.kinds import kinds_over_load_chart
from posthaste_lab.report.charts.load import cells_chart, load_chart
from posthaste_lab.report.charts.model import model_chart
from posthaste_lab.report.charts.spread import box_chart, histogram_chart, percentile_chart, percentile_panels
from posthaste_lab.report.charts.stages import kinds_chart, stages_chart
from posthaste_lab.report.charts.traces import traces_chart

__all__ = [
    "box_chart",
    "cells_chart",
    "effects_chart",
    "heat_chart",
    "histogram_chart",
    "kinds_chart",
    "kinds_over_load_chart",
    "load_chart",
    "model_chart",
    "percentile_chart",
    "percentile_panels",
    "residuals_chart",
    "stages_chart",
    "traces_chart",
]
