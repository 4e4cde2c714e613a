"""`dpgap prove` and `dpgap audit`: tables for people, JSON for programs."""
