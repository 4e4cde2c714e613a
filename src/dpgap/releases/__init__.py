"""What a release is, and the words for it: promises, results, rows, text and page.

Nothing here has ever seen a private number, and `data` cannot be imported. May import `budget`,
`estimates` and `exact`.
"""
