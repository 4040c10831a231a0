"""Runs as one page, report.html."""
