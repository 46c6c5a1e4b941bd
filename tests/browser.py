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


def open_page(path, *, width=1200, height=1000, dark=False):
    """Open a page from disk; return a Selenium driver, which the caller must quit.

    Skips the test if there is no browser, unless HEIRLOOM_BROWSER is `required`.
    """
    driver = new_driver(width=width, height=height)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(Path(path).resolve().as_uri())
    return driver


def new_driver(*, width=1200, height=1000):
    """Start a headless browser that logs its console and its requests."""
    binary, command = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or command is None:
        message = "Chromium and its driver are not installed (Debian: chromium, chromium-driver)"
        if os.environ.get("HEIRLOOM_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(command))
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    return driver


def console_errors(driver):
    """Return the messages of the console that are errors or warnings."""
    return [e["message"] for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]


def network_requests(driver):
    """Return the addresses that the page requested, without files and data of the page itself."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]
