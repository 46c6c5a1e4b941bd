"""A report that is open in a browser, for the tests of reports."""

import base64
import time

from tests.browser import console_errors, requests, resize

LONGEST = 600  # seconds until a page is ready; it takes half a second on an idle machine


class Page:
    """A report that is open in a browser."""

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
        return console_errors(self.driver)

    def requests(self):
        """Return the addresses of all requests, but not that of the page itself."""
        return requests(self.driver)

    def resize(self, width):
        """Show the page as on a screen of this width."""
        resize(self.driver, width)

    def pdf(self):
        """Print the page, and return the PDF."""
        printed = self.driver.execute_cdp_cmd("Page.printToPDF", {})
        return base64.b64decode(printed["data"])
