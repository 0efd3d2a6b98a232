"""Reports: from a run's directory to one offline page, with its charts as files and a CSV of every table.

`experiments.results` reads the directory. Then, in this order: `cells` joins repetitions, `verdict` decides the claims,
`records` reads what the programs recorded, `charts` draws, `sections` describe the results, `page` writes the page, and
`summary` a page of Markdown.
"""

from posthaste_lab.report.page import write_report
from posthaste_lab.report.summary import summary_of, write_summary

__all__ = ["summary_of", "write_report", "write_summary"]
