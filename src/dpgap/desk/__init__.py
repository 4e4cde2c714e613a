"""The desk: people ask in a browser or by a program, and never hold the table.

The steward's file names data sets, topics and people (`stewards_file`). Topics are counted when the
desk starts, and again when a steward says so, never because of a question (`shelf`). A question is
charged to the ledger, answered and archived, and only what stands in the archive is ever handed
out (`desk`). Pages (`pages`, `stewards_pages`) and the API (`api`) show the same; `guard` stands in
front of both.
"""
