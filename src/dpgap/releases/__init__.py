"""What a release is, the document that keeps it, and the words, rows and page that show it.

Nothing here has ever seen a private number, and `data` cannot be imported. May import `budget`,
`estimates`, `question` and what these may import.
"""

from dpgap.releases import document, findings, page, release

release.Table._showing = release.Showing(
    document.document, document.drawn, findings.findings, page.page, page.cell, page.plot
)
