"""What a release is, the document that keeps it, and the words, rows and page that show it.

Nothing here has ever seen a private number, and `data` cannot be imported. May import `budget`,
`estimates`, `question` and what these may import.
"""

from dpgap.releases import by_group, document, findings, page, release, text

release.Table.showing = release.Showing(
    document=document.document,
    drawn=document.drawn,
    columns=text.columns_of,
    findings=findings.findings,
    title=findings.title_of,
    page=page.page,
    cell=page.cell,
    plot=page.plot,
    table=page.rows_alone,
    shares=by_group.shares_of,
)
