"""The desk: a web server where people ask in a browser or by a program, without the table.

The steward's file names data sets, topics and people (`config`). Topics are counted when the
desk starts, and again when a steward asks for it, never because of a question (`counts`). A
question is charged to the ledger, answered and archived; people get only archived answers
(`queue`). Pages (`pages`) and the API (`api`) show the same; `middleware` checks every request.
"""
