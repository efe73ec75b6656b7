"""The report: one page that shows how much of a run's communication was hidden, and what to change."""
