"""Open pages in a real browser: Chromium and its driver, as Debian installs them."""

import json
import os
import shutil
from pathlib import Path

import pytest

OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--disable-background-networking", "--disable-component-update"),
    *("--no-first-run", "--disable-default-apps", "--disable-sync"),
)


def open_page(path):
    """Open a page from disk; return a Selenium driver, which the caller must quit."""
    driver = new_driver()
    driver.get(Path(path).resolve().as_uri())
    return driver


def new_driver():
    """Start a headless browser that logs its console and its requests.

    Skips the test if there is no browser; fails if HEIRLOOM_BROWSER is `required`, as in `.ci/run`.
    """
    reason = _missing()
    if reason and os.environ.get("HEIRLOOM_BROWSER") == "required":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    scheme = {"name": "prefers-color-scheme", "value": "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    resize(driver, 1200)
    return driver


def _missing():
    """Return why there is no browser; empty if there is one."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install chromium chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: run `make check`, which installs the test tools"
    return ""


def resize(driver, width):
    """Show the page as on a screen of this width."""
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def console_errors(driver):
    """Return the messages of the console that are errors or warnings."""
    return [e["message"] for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]


def requests(driver):
    """Return the addresses that pages requested, other than pages from disk and data in them."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    return [each["request"]["url"] for each in sent if not _is_page_or_data(each)]


def _is_page_or_data(request):
    url = request["request"]["url"]
    is_page = request["type"] == "Document" and url.startswith("file:")
    return is_page or url.startswith(("data:", "blob:"))
