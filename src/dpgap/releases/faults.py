"""What is raised where a document cannot be read."""


class DocumentError(ValueError):
    """A text that is no release document, or one that this version of dpgap cannot read."""
