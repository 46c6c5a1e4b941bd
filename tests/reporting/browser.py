"""A headless Chromium that opens a page from disk, for the tests of reports."""

import base64
import json
import os
import shutil
import time
from contextlib import contextmanager

import pytest

REQUIRED = os.environ.get("HEIRLOOM_BROWSER") == "required"
"""Whether tests fail, and are not skipped, if there is no Chromium; `.ci/run` sets it."""
LONGEST = 30  # seconds until a page is ready; it takes half a second on an idle machine


def missing_browser():
    """Return why there is no browser; empty if there is one."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install chromium chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: pip install selenium"
    return ""


def require_browser():
    """Skip the test if there is no browser; fail where one is required."""
    reason = missing_browser()
    if reason and REQUIRED:
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@contextmanager
def browser():
    """Start Chromium; yield its driver."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--window-size=1200,1000",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """A page that is open in a browser."""

    def __init__(self, driver, path):
        self.driver = driver
        driver.get_log("browser"), driver.get_log("performance")
        driver.get(path.resolve().as_uri())
        self.wait("document.documentElement.dataset.ready === 'true'")

    def run(self, script, *arguments):
        """Run a script in the page, and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition, seconds=LONGEST):
        """Wait until a condition is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < deadline, f"{condition} did not become true: {self.errors()}"
            time.sleep(0.02)

    def click(self, selector):
        """Click an element, as a user would."""
        self.run("document.querySelector(arguments[0]).click()", selector)

    def choose(self, selector, value):
        """Choose an option of a select element."""
        self.run(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "if (e.value !== arguments[1]) throw new Error('no such option');"
            "e.dispatchEvent(new Event('change'))",
            selector,
            value,
        )

    def text(self, selector):
        """Return the text of an element."""
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def drawn(self, view, curve):
        """Return the points that Bokeh draws of a curve."""
        return self.run(
            "const { source } = heirloomReport.charts[arguments[0]];"
            "const d = source(arguments[1], 'points').data;"
            "return {x: [...d.x], mean: [...d.mean], half: [...d.half]}",
            view,
            curve,
        )

    def errors(self):
        """Return warnings and errors of the console."""
        return [entry for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def requests(self):
        """Return the addresses of all requests, but not data within the page."""
        events = (json.loads(each["message"]) for each in self.driver.get_log("performance"))
        sent = [e["message"] for e in events]
        sent = [e for e in sent if e["method"] == "Network.requestWillBeSent"]
        addresses = [e["params"]["request"]["url"] for e in sent]
        return [url for url in addresses if not url.startswith(("data:", "blob:"))]

    def resize(self, width):
        """Show the page as on a screen of this width."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def pdf(self):
        """Print the page, and return the PDF."""
        printed = self.driver.execute_cdp_cmd("Page.printToPDF", {})
        return base64.b64decode(printed["data"])
