import page_browser
import page_scripts
import pytest
from click.testing import CliRunner

from tilelang_ascend.tools import cli


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    browser = page_browser.start(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """Path of the page of `page_scripts.ATTENTION`; its data lie beside it."""
    pytest.importorskip("bokeh")
    folder = tmp_path_factory.mktemp("profile")
    script = folder / "attention.py"
    script.write_text(page_scripts.ATTENTION)
    result = CliRunner().invoke(cli.main, ["profile", "-o", str(folder / "attention.html"), str(script)])
    assert result.exit_code == 0, result.output
    return folder / "attention.html"
