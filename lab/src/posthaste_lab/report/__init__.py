"""Reports: a run's directory in, one offline page out, with its figures as files and a CSV of every table.

In the order a report comes about: `results` reads the directory, `cells` puts repetitions together, `verdict` decides
the claims, `records` reads what the programs recorded, `charts` draws, `sections` say what is seen, `page` writes it.
"""

from posthaste_lab.report.page import write_report

__all__ = ["write_report"]
