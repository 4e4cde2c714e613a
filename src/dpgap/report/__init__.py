"""A release to look at: in a terminal, as JSON or CSV, as a page. Names of items are untrusted."""
