"""One farm for the tests of each module that leave it as they found it."""

import pytest
from farm import Farm


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    made = Farm(tmp_path_factory.mktemp("farm"))
    try:
        yield made
    finally:
        made.end()
