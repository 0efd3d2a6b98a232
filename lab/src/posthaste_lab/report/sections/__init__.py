"""The sections of a report, each made by a function of the run, in the order of the page."""

from posthaste_lab.report.sections.busy import busy_section
from posthaste_lab.report.sections.design import design_section
from posthaste_lab.report.sections.distributions import distributions_section
from posthaste_lab.report.sections.kinds import kinds_section
from posthaste_lab.report.sections.maxima import maxima_section
from posthaste_lab.report.sections.model import model_section
from posthaste_lab.report.sections.network import network_section
from posthaste_lab.report.sections.over_time import time_section
from posthaste_lab.report.sections.overview import overview_section
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem
from posthaste_lab.report.sections.setup import setup_section
from posthaste_lab.report.sections.single import single_section
from posthaste_lab.report.sections.trust import trust_section
from posthaste_lab.report.sections.where import where_section

SECTIONS = (
    overview_section,
    maxima_section,
    where_section,
    kinds_section,
    busy_section,
    network_section,
    time_section,
    distributions_section,
    single_section,
    design_section,
    model_section,
    trust_section,
    setup_section,
)

__all__ = ["SECTIONS", "ChartItem", "Section", "TableItem"]
