"""What a release is, the document that keeps it, and the words, rows and page that show it.

Nothing here has ever seen a private number, and `data` cannot be imported. May import `budget`,
`estimates` and `exact`.
"""
