"""The site describes all that there is, is generated from the code, and needs no network."""

import os
import re
import subprocess
import sys

import pytest

import heirloom
import heirloom as hl
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.agents.near_rmax import NearnessNumbers
from heirloom.experiments.reading import RecordSpec
from heirloom.experiments.registry import FAMILIES
from heirloom.experiments.spec import AgentSpec, ExperimentSpec, FamilySpec
from published import code_blocks, documents, ideas
from published.examples import EXAMPLES
from published.results import PROJECT
from published.site import GENERATED, MARK, api, commands, docstrings, gallery, pages, specs
from tests import browser

DOCS = code_blocks.DOCS
MODELS = {
    **{name: algorithm.options for name, algorithm in ALGORITHMS.items()},
    "spec": ExperimentSpec,
    "agent": AgentSpec,
    "family": FamilySpec,
    "nearness": NearnessNumbers,
    "record": RecordSpec,
}
REQUESTS = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(?:https?:)?//"
    r"|<link(?![^>]*rel=\"(?:canonical|search|author|copyright)\")[^>]*href=\"(?:https?:)?//"
    r"|url\(\s*[\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//"
)


@pytest.mark.parametrize("name", MODELS)
def test_every_key_of_a_spec_has_a_meaning(name):
    assert all(field.description for field in MODELS[name].model_fields.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_every_option_of_a_family_has_a_meaning(name):
    missing = [p.name for p, meaning in specs.family_options(FAMILIES[name]) if not meaning]
    assert missing == [], f"describe these options in the docstring of {name}, under Args"


def test_reference_of_specs_has_every_key_family_algorithm_and_measure():
    text = specs.keys() + specs.families() + specs.algorithms() + specs.measures()
    for name in ("distinct_tasks", "in_order", "measure", "sweep", "defaults", *FAMILIES):
        assert f"`{name}`" in text
    for model in MODELS.values():
        assert all(f"| `{key}` |" in text for key in model.model_fields)


def test_reference_of_commands_has_every_command_and_a_help_for_every_option():
    text = commands.reference()
    found = set(re.findall(r"^## heirloom (.+)$", text, re.MULTILINE))
    assert {"run", "reproduce", "status", "export", "list", "show", "audit"} <= found
    assert "| |" not in text


def test_reference_of_the_api_has_every_public_name_once():
    found = re.findall(r"^\.\. auto\w+:: (\S+)$", api.names_by_subject(), re.MULTILINE)
    assert sorted(found) == sorted(api.public_paths().values())
    top_level = {path.removeprefix("heirloom.") for path in found if path.count(".") == 1}
    modules = {"bounds", "envs", "errors", "metrics", "plot", "theory", "wrappers"}
    assert top_level | modules == set(heirloom.__all__)


def test_every_page_is_listed_on_the_front_page_or_found_by_it():
    text = (DOCS / "index.md").read_text("utf-8")
    text = MARK.sub(lambda match: GENERATED[match[1]](), text)
    listed = re.findall(r"^([\w/-]+)$", text, re.MULTILINE)
    found = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(set(found) - {"index"})


def test_every_mark_of_a_page_is_generated():
    names = {name for path in DOCS.rglob("*.md") for name in MARK.findall(path.read_text("utf-8"))}
    assert names == set(GENERATED)


def test_generated_parts_say_in_the_file_where_their_text_is():
    """A reader of the clone, where nothing is generated, is told which page of the build has it."""
    for path in DOCS.rglob("*.md"):
        built = path.relative_to(DOCS).with_suffix(".html").as_posix()
        for mark in MARK.finditer(path.read_text("utf-8")):
            is_hidden = mark[1] == "other guides"  # in a list of pages, which is not shown
            assert is_hidden or f"`build/site/{built}`" in mark[0], f"{path.name}: {mark[1]}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_gallery_shows_every_example_and_its_pictures(name):
    """`make numbers` draws the pictures; an example whose pictures are missing has only text."""
    text = gallery.examples()
    assert f"(../examples/{name}.py)" in text
    for picture in gallery.PICTURES.glob(f"{name}*.png"):
        assert f"(images/examples/{picture.name})" in text


def test_pages_that_the_front_page_does_not_list_become_guides(tmp_path, monkeypatch):
    (tmp_path / "index.md").write_text("tasks\n")
    for name in ("tasks", "replay"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    assert pages.other_guides() == "replay"


def test_docstrings_are_escaped_outside_code_and_public_names_become_links():
    lines = ["|Q - Q*| <= d_max, see `RMax` and `x_`.", "", "Example:", "    >>> a_ * 2"]
    docstrings.escape(None, "function", "", None, None, lines)
    assert lines[0] == r"\|Q - Q\*\| <= d\_max, see :obj:`~heirloom.RMax` and ``x_``."
    assert lines[-1] == "    >>> a_ * 2"


def test_lines_of_code_fit_the_site():
    """Outputs of programs are wrapped, code is not."""
    for path in DOCS.rglob("*.md"):
        for block in code_blocks.blocks(path):
            longest = max(map(len, block.code.splitlines()), default=0)
            assert block.language == "text" or longest <= 111, block.location


def test_readme_is_short():
    assert len((PROJECT / "README.md").read_text("utf-8").splitlines()) <= 130


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=code_blocks.name_of)
def test_no_document_installs_from_a_package_index(path):
    """Until Heirloom is published there."""
    assert not re.search(r"pip install.*heirloom-rl", path.read_text("utf-8"))


def test_bound_excludes_two_of_four_actions_as_the_picture_of_bounds_shows():
    found = ideas.bounds_at_the_start()
    assert (found.optimal <= found.bound).all()
    assert (found.bound < found.v_max).all()
    assert [ideas.ACTIONS[i] for i in range(4) if found.bound[i] < found.optimal.max()] == [
        "down",
        "left",
    ]


def test_weeks_are_within_the_interval_that_the_picture_of_nearness_shows():
    drawn = ideas.drawn_rewards()
    assert (abs(drawn - drawn[0]) <= ideas.nearness_of_rewards() + 1e-9).all()


def test_replay_of_two_agents_shows_what_its_page_says():
    (known, r_max), (fewer_known, near_r_max) = ideas.second_day().values()
    assert known.all()
    assert fewer_known.mean() == pytest.approx(0.25, abs=0.05)
    first = slice(20 * 20)  # the first twenty episodes
    assert not r_max.rewards[first].any()
    assert near_r_max.rewards[first].reshape(20, 20).sum(axis=1).min() > 0


def test_false_claims_below_one_half_cost_half_of_the_value():
    assert ideas.value_with_guess(0.45) == pytest.approx(0.5)
    assert ideas.value_with_guess(0.6) == pytest.approx(1.0)
    assert ideas.bound_of_guess(0.3) < 5 < ideas.bound_of_guess(0.6) < 10


def test_refreshed_models_earn_more_than_frozen_ones_after_one_visit_and_many_visits_cost_return():
    shares = {name: x.mean(axis=2) for name, x in ideas.shares_of_the_optimum(n_runs=5).items()}
    frozen, refreshed = shares.values()
    assert (refreshed[:, 0] > frozen[:, 0]).all()
    assert max(frozen[0, -1], refreshed[0, -1]) < 0.1
    assert abs(frozen[1, 3:] - refreshed[1, 3:]).max() < 0.05  # from 5 visits on


def test_bounds_with_a_true_prior_are_valid_and_without_one_they_are_v_max():
    task = ideas.corridor(ideas.LEFT, 0.2)
    assert ideas.bounds_with_prior(None) == pytest.approx(task.v_max)
    assert ideas.bounds_with_prior(1.0) == pytest.approx(task.v_max)
    bounds = ideas.bounds_with_prior(0.2)
    assert (bounds >= hl.solve(task).V).all()
    assert bounds.max() < task.v_max


LEARN = [*(DOCS / "learn").glob("*.md"), DOCS / "tutorials" / "certificates.md"]


@pytest.mark.parametrize("path", LEARN, ids=code_blocks.name_of)
def test_page_for_learners_is_read_in_ten_minutes(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(text.split()) <= 1500
    assert code_blocks.name_of(path) in (DOCS / "index.md").read_text("utf-8")


def test_each_of_six_exercises_hides_an_answer_that_is_executed():
    text = (DOCS / "learn" / "exercises.md").read_text("utf-8")
    _, *exercises = re.split(r"^## \d\. ", text, flags=re.MULTILINE)
    assert len(exercises) == 6
    for exercise in exercises:
        question, answer = exercise.split("<details><summary>Answer</summary>\n\n")
        assert "```" not in question
        assert answer.rstrip().endswith("</details>")
        assert len(code_blocks.PYTHON_BLOCK.findall(answer)) == 1


def test_citations_have_the_version_of_the_package():
    page = (DOCS / "cite.md").read_text("utf-8")
    software = page[page.index("@software") : page.index("## The paper")]
    assert f"version = {{{heirloom.__version__}}}" in software
    assert {"year", "url", "note"} <= set(re.findall(r"^  (\w+) +=", software, re.MULTILINE))
    citation = (PROJECT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {heirloom.__version__}\n" in citation


def test_words_of_the_glossary_are_in_order():
    words = re.findall(
        r"^\*\*([^*]+)\*\*:", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(words) > 20
    assert words == sorted(words)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once. Tutorials are executed by their own tests, and not here."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "-q", "-D"]
    done = subprocess.run(
        [*command, "execute_tutorials=0", str(DOCS), str(folder / "site")],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLCONFIGDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.mark.slow
def test_site_is_built_without_warnings_and_its_pages_request_nothing(site):
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 30
    requesting = [path.name for path in files if REQUESTS.search(path.read_text("utf-8"))]
    assert requesting == []


@pytest.mark.slow
def test_pages_fit_a_screen_and_a_phone(site):
    """At 1280 px nothing is cut off; at 400 px code, tables and formulas scroll in their boxes."""
    driver, wide = browser.new_driver(), {}
    try:
        for path in sorted(site.rglob("*.html")):
            for width, boxes in ((1280, "none"), (400, "pre, .table-wrapper, div.formula")):
                browser.resize(driver, width)
                driver.get(path.as_uri())
                found = driver.execute_script(CUT_OFF, boxes)
                wide |= {f"{path.name}, {width} px": found} if found else {}
    finally:
        driver.quit()
    assert wide == {}


@pytest.mark.slow
def test_replay_plays_in_its_page_without_requests(site):
    driver = browser.open_page(site / "replay.html")
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        driver.switch_to.frame(driver.find_element("css selector", "iframe.replay"))
        ready = "return document.querySelector('.hlr')?.dataset.ready"
        WebDriverWait(driver, 60).until(lambda d: d.execute_script(ready))
        shown = "return document.querySelector('.hlr').player.panels.map((p) => p.recording.agent)"
        assert driver.execute_script(shown) == ["RMax", "NearRMax"]
        height = "return [document.documentElement.scrollHeight, innerHeight]"
        needed, given = driver.execute_script(height)
        assert needed <= given
        assert [url for url in browser.requests(driver) if not url.startswith("file:")] == []
        assert browser.console_errors(driver) == []
    finally:
        driver.quit()


CUT_OFF = """
    const page = document.documentElement;
    const overflow = (e) => getComputedStyle(e).overflowX;
    const hides = (e) => e === page || /auto|scroll|hidden|clip/.test(overflow(e));
    const isWide = (e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1;
    const box = (e) => e.closest('div.formula, td, th, li, dd, dt, p, article');
    const right = (e) => e.getBoundingClientRect().right;
    const leaves = (e) => !e.closest('div.formula') && right(e) > right(box(e)) + 2;
    return [page, ...document.querySelectorAll('.page, .main, .content, article, article *')]
        .filter((e) => hides(e) && isWide(e) && !e.matches(arguments[0]))
        .concat([...document.querySelectorAll('article math')].filter(leaves))
        .map((e) => [e.scrollWidth, e.clientWidth, e.textContent.trim().slice(0, 60)]);
"""
