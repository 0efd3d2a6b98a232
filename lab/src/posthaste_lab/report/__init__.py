"""Reports: a run's directory in, one offline page out, with its figures as files and a CSV of every table.

In the order a report comes about, `experiments.results` having read the directory: `cells` puts repetitions together,
`verdict` decides the claims, `records` reads what the programs recorded, `charts` draws, `sections` say what is seen,
`page` writes it,
`summary` a page of Markdown.
"""

from posthaste_lab.report.page import write_report
from posthaste_lab.report.summary import write_summary

__all__ = ["write_report", "write_summary"]
