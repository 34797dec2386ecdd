"""Which gates look at the modes on Azure. None of them blocks anything."""

from librarian_pipeline.checks import gates as names

_OF_THIS_MACHINE = (names.FILES, names.FUSION, names.BEST_BRANCH, names.README)
"""They look at the stored files, the local modes, and the figures of what is published."""
AZURE_GATES = {name: text for name, text in names.GATES.items() if name not in _OF_THIS_MACHINE}
"""With what each looks at."""
