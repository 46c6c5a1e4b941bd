"""A report in a real browser: it loads nothing, every control works, and its numbers are right."""

import re

import numpy as np
import pytest

import heirloom as hl
from heirloom.report.charts import block_means, blocks
from heirloom.stats import moving_average, student_interval
from tests.browser import new_driver
from tests.report.examples import HOSTILE, results
from tests.report.open_report import Page

NAMES = ("RMax", "LRMax(0.1)", "Mine")
RESULTS = results(NAMES)


@pytest.fixture(scope="module")
def driver():
    driver = new_driver()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(driver, tmp_path_factory):
    path = hl.write_report(
        RESULTS, tmp_path_factory.mktemp("report") / "report.html", title="a title"
    )
    return Page(driver, path)


@pytest.fixture(autouse=True)
def defaults(page):
    """Every test starts from the same choices and leaves no error in the console."""
    page.choose("#mode", "absolute")
    page.choose("#kind", "returns")
    for name, on in (("smooth", False), ("bands", True)):
        page.run(
            "const e = document.getElementById(arguments[0]);"
            "if (e.checked !== arguments[1]) e.click()",
            name,
            on,
        )
    page.click("#all")
    yield
    assert page.errors() == []


def expected(view, *, kind="returns", change=lambda own, i: own, smooth=False):
    """Mean and half width of each curve, computed with numpy."""
    values = RESULTS[kind].values
    means = values.mean(axis=3) if view == "tasks" else values.mean(axis=2)
    borders = blocks(means.shape[2], 200)
    points = block_means(means, borders)
    found = []
    for i in range(len(NAMES)):
        rows = change(points, i)
        n = rows.shape[1]
        rows = moving_average(rows, max(2, round(n / 20))) if smooth else rows
        found.append(student_interval(rows))
    return found


def assert_drawn(page, view, **options):
    for i, interval in enumerate(expected(view, **options)):
        drawn = page.drawn(view, i)
        np.testing.assert_allclose(drawn["mean"], interval.mean, rtol=1e-12, atol=1e-12)
        half = np.array(drawn["half"], dtype=float)  # None where there is no interval
        np.testing.assert_allclose(half, interval.half_width, rtol=1e-9, atol=1e-12)


def test_page_opens_from_disk_without_any_request(page):
    assert page.requests() == []
    assert page.text("h1") == "a title"
    assert page.run("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("view", ["tasks", "episodes"])
def test_curves_are_the_means_and_intervals_of_the_arrays(page, view):
    assert_drawn(page, view, change=lambda points, i: points[i])
    page.choose("#kind", "discounted_returns")
    assert_drawn(page, view, kind="discounted_returns", change=lambda points, i: points[i])
    page.click("#smooth")
    assert_drawn(
        page, view, kind="discounted_returns", change=lambda points, i: points[i], smooth=True
    )


@pytest.mark.parametrize("view", ["tasks", "episodes"])
def test_curves_relative_to_the_baseline_or_the_optimum(page, view):
    page.choose("#mode", "difference")
    assert_drawn(page, view, change=lambda points, i: points[i] - points[0])
    page.choose("#mode", "ratio")
    assert_drawn(page, view, change=lambda points, i: points[i] / points[0])
    page.choose("#compared", "\x00optimum")
    assert_drawn(page, view, change=lambda points, i: points[i] / 4.0)
    assert "optimal return" in page.text("#explanation")
    page.choose("#compared", "RMax")


def test_agents_are_switched_on_and_off_within_100_ms(page):
    seconds = page.run(
        "const before = performance.now();"
        "document.querySelector('button.curve[data-curve=\"1\"]').click();"
        "return (performance.now() - before) / 1000"
    )
    visible = "return heirloomReport.charts.tasks.chart.renderers.map(r => r.visible)"
    assert page.run(visible) == [True] * 3 + [False] * 3 + [True] * 3
    pressed = "return document.querySelectorAll('button.curve[aria-pressed=\"true\"]').length"
    assert page.run(pressed) == 2
    page.click("#none")
    assert not any(page.run(visible))
    page.click("#all")
    page.click("#bands")
    assert page.run(visible) == [False, True, True] * 3
    assert seconds < 0.1


def test_numbers_below_a_chart_are_those_of_the_curves(page):
    page.run("document.querySelector('details.numbers[data-view=tasks]').open = true")
    page.wait("document.querySelector('details.numbers[data-view=tasks] td')")
    cells = page.run(
        "return [...document.querySelectorAll('details.numbers[data-view=tasks] tbody tr')]"
        ".map(r => [...r.cells].map(c => c.textContent))"
    )
    intervals = expected("tasks", change=lambda points, i: points[i])
    for k, (task, *shown) in enumerate(cells):
        assert task == str(k + 1)
        for interval, cell in zip(intervals, shown, strict=True):
            mean, half = map(float, cell.split(" ± "))
            assert mean == pytest.approx(interval.mean[k], abs=0.1 * half)
            assert half == pytest.approx(interval.half_width[k], rel=0.06)


def test_table_of_agents_is_sorted_by_its_headings(page):
    rows = (
        "return [...document.querySelectorAll('table.sortable tbody tr')]"
        ".map(r => r.cells[0].textContent)"
    )
    heading = "table.sortable thead th:nth-child(2) button"
    page.click(heading)
    assert page.run(rows) == ["Mine", "LRMax(0.1)", "RMax"]
    page.click(heading)
    assert page.run(rows) == ["RMax", "LRMax(0.1)", "Mine"]
    page.click("table.sortable thead th:nth-child(1) button")
    assert page.run(rows) == ["LRMax(0.1)", "Mine", "RMax"]
    means = page.run(
        "return [...document.querySelectorAll('table.sortable tbody tr')]"
        ".map(r => Number(r.cells[1].querySelector('data').value))"
    )
    order = [NAMES.index(name) for name in page.run(rows)]
    assert means == pytest.approx(RESULTS.returns.values.mean(axis=(1, 2, 3))[order], rel=1e-12)


@pytest.mark.parametrize("repetition", ["mean of all", "3"])
def test_transfer_shows_the_pairs_that_each_bound_and_source_decided(page, repetition):
    page.choose("#transfer-agent", "1")
    page.choose("#transfer-repetition", repetition)
    chosen = slice(None) if repetition == "mean of all" else [int(repetition) - 1]
    pairs = RESULTS.bound_pairs.values[1, chosen].mean(axis=0)
    sources, counts = (RESULTS[n].values[1, chosen] for n in ("source_task", "source_pairs"))
    cells = page.run(
        "return [...document.querySelectorAll('#transfer-table tbody tr')]"
        ".map(r => [...r.cells].map(c => c.textContent))"
    )
    for task, (_, _, named, *numbers) in enumerate(cells):
        *shown, dropped, refuted = map(float, numbers)
        assert shown == pytest.approx(pairs[task], abs=0.051)
        for name, value in (("dropped_sources", dropped), ("refutations", refuted)):
            assert value == pytest.approx(RESULTS[name].values[1, chosen, task].mean(), abs=0.051)
        of_source = {
            k: (counts[:, task] * (sources[:, task] == k)).sum() / len(counts) for k in (1, 2)
        }
        for source, n in re.findall(r"task (\d+): ([\d.]+)", named):
            assert float(n) == pytest.approx(of_source[int(source)], abs=0.051)


def test_certificates_have_a_link_and_a_picture_in_each_row(page):
    links = "return [...document.querySelectorAll('nav a')].map(a => a.textContent)"
    assert "Certificates" in page.run(links)
    pictures = "return document.querySelectorAll('#certificates tbody td:last-child svg').length"
    assert page.run(pictures) == 2 * RESULTS.task.size


def test_dark_appearance_changes_the_page_and_the_curves(page):
    colours = (
        "return [getComputedStyle(document.body).backgroundColor,"
        "heirloomReport.charts.tasks.chart.renderers[1].glyph.line_color.value]"
    )
    light = page.run(colours)
    page.click("#appearance")
    dark = page.run(colours)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page.click("#appearance")
    assert page.run(colours) == light


def test_page_fits_a_phone_and_prints(page):
    page.resize(400)
    page.wait("document.querySelector('#chart-tasks').clientWidth < 400")
    assert page.run("return document.documentElement.scrollWidth") <= 400
    page.resize(1200)
    assert page.pdf().startswith(b"%PDF")
    assert page.run("return document.documentElement.dataset.appearance") == "light"


def test_hovering_over_a_point_shows_its_numbers(page):
    page.run(
        "document.querySelector('#chart-tasks').scrollIntoView({block: 'center', "
        "behavior: 'instant'})"
    )
    x, y = page.run(
        "const {chart, source} = heirloomReport.charts.tasks, d = source(2, 'points').data;"
        "const view = Bokeh.index.find_one_by_id(chart.id), box = view.el.getBoundingClientRect();"
        "return [box.left + view.frame.x_scale.compute(d.x[1]),"
        "        box.top + view.frame.y_scale.compute(d.mean[1])]"
    )
    for dx in (-20, 0):
        event = {"type": "mouseMoved", "x": x + dx, "y": y}
        page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    shown = (
        "(function text(n) { return n.nodeName === 'STYLE' ? '' : n.nodeType === 3 ? n.data :"
        "[...(n.shadowRoot?.childNodes ?? []), ...n.childNodes].map(text).join(' ') })"
        "(document.querySelector('.bk-Tooltip') ?? document.createElement('i'))"
    )
    page.wait(f"{shown}.includes('Mine')")
    mean = RESULTS.returns.values[2, :, 1].mean()
    assert f"{mean:.4f}" in page.run(f"return {shown}")


def test_hostile_names_are_shown_as_text(page, driver, tmp_path):
    path = hl.write_report(
        {"<img src=x onerror=alert(2)>": results(HOSTILE), "b": results(HOSTILE, seed=1)},
        tmp_path / "hostile.html",
        title="<i>t</i>",
    )
    hostile = Page(driver, path)
    assert hostile.text("h1") == "<i>t</i>"
    labels = hostile.run(
        "return [...document.querySelectorAll('button.curve span')].map(e => e.textContent)"
    )
    assert labels[0] == "<script>alert(1)</script> · <img src=x onerror=alert(2)>"
    assert "\\x1b[31mred\\u202e" in labels[2]
    assert hostile.run("return document.querySelectorAll('img, i:not([class]), b').length") == 0
    assert hostile.errors() == []
    assert hostile.requests() == []
    Page(driver, path)  # a dialog would prevent this
