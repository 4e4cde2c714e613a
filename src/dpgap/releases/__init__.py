"""Releases, the document that stores one, and the sentences, rows and pages that show it.

No private number ever gets here: `data` cannot be imported. May import `budget`, `estimates`,
`question` and what these may import.
"""

from dpgap.releases import document, findings, page, release

release.Table._showing = release.Showing(
    document.document, document.drawn, findings.findings, page.page, page.cell, page.plot
)
