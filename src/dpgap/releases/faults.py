"""What is raised where a document cannot be read."""


class DocumentError(ValueError):
    """A text is not a release document, or this version of dpgap cannot read it."""
