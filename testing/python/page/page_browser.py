"""A headless Chromium that opens pages of files, and questions about the charts in them."""

import shutil
import time

import pytest

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --window-size=1500,1400"
).split()
NAMES = ("chromium", "chromium-browser", "google-chrome")

_MODEL = """
const model = (name) => Bokeh.documents.map((d) => d.get_model_by_name(name)).find((m) => m !== null);
const until = (condition, then) => { const again = () => condition() ? then() : setTimeout(again, 20); again(); };
"""
_PIXEL = """
const view = Bokeh.index.find_one(model(arguments[0]));
const box = view.el.getBoundingClientRect();
return [box.left + view.frame.x_scale.compute(arguments[1]), box.top + view.frame.y_scale.compute(arguments[2])];
"""
_FRAMES = """
const done = arguments[0];
until(() => Bokeh.documents.length && Bokeh.documents.every((d) => d.is_idle), () => requestAnimationFrame(() => requestAnimationFrame(() => done())));
"""


def start(folder):
    """The browser, with an empty profile in `folder`; skips the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    program = next(filter(None, map(shutil.which, NAMES)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with its driver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    browser.set_script_timeout(60)
    return browser


class Page:
    """An opened page. Charts and their sources are found by the names of their Bokeh models."""

    def __init__(self, browser, path):
        self.browser = browser
        begin = time.monotonic()
        browser.get(path.resolve().as_uri())
        self.settle()
        self.seconds = time.monotonic() - begin

    def ask(self, script, *args):
        """What a script returns that may use ``model(name)``."""
        return self.browser.execute_script(_MODEL + script, *args)

    def settle(self):
        """Wait until everything is drawn."""
        self.browser.execute_async_script(_MODEL + _FRAMES)

    def log(self):
        return [(entry["level"], entry["message"]) for entry in self.browser.get_log("browser")]

    def window(self):
        return self.ask("const x = model('time'); return [x.start, x.end]")

    def show_in_time(self, start, end):
        self.ask("model('time').setv({start: arguments[0], end: arguments[1]})", start, end)
        self.settle()

    def pixel(self, chart, x, y):
        return [round(v) for v in self.ask(_PIXEL, chart, x, y)]

    def move(self, at, click=False):
        from selenium.webdriver.common.action_chains import ActionChains

        actions = ActionChains(self.browser, duration=20)
        actions.w3c_actions.pointer_action.move_to_location(*at)
        if click:
            actions.w3c_actions.pointer_action.click()
        actions.perform()
        self.settle()

    def drag(self, start, end):
        from selenium.webdriver.common.action_chains import ActionChains

        actions = ActionChains(self.browser, duration=50)
        pointer = actions.w3c_actions.pointer_action
        pointer.move_to_location(*start)
        pointer.pointer_down()
        pointer.move_to_location((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
        pointer.move_to_location(*end)
        pointer.pointer_up()
        actions.perform()
        self.settle()

    def wheel(self, at, by):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

        ActionChains(self.browser, duration=20).scroll_from_origin(ScrollOrigin.from_viewport(*at), 0, by).perform()
        self.settle()

    def tooltips(self):
        """Texts of the tooltips that are shown; charts draw them inside of shadow trees."""
        return self.ask(
            "const found = []; const look = (root) => { for (const e of root.querySelectorAll('*')) {"
            "if (e.classList.contains('bk-Tooltip') && e.getBoundingClientRect().width > 0) found.push([...e.shadowRoot.children]"
            ".filter((c) => c.tagName !== 'STYLE').map((c) => c.textContent).join(' '));"
            "if (e.shadowRoot) look(e.shadowRoot); } }; look(document); return found"
        )

    def texts(self, selector):
        return self.ask("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)
