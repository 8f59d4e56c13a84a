"""Flows: what Prefect runs, and the command line. The only layer that knows Prefect; it never loads torch."""
