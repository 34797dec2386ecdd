from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Digests of model weights are remembered in a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIBRARIAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
