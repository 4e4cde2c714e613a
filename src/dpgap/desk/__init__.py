"""The desk: people ask in a browser or by a program, and never hold the table.

The steward's file names data sets, topics and people (`config`). Topics are counted when the
desk starts, and again when a steward says so, never because of a question (`counts`). A question is
charged to the ledger, answered and archived, and only what stands in the archive is ever handed
out (`queue`). Pages (`pages`) and the API (`api`) show the same; `middleware` stands in
front of both.
"""
