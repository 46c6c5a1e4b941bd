"""Replays in a real browser: every control is used, and what is shown equals the recordings."""

import pytest

import heirloom as hl
from heirloom.report.replay import replay_section
from tests.browser import console_errors, open_page, requests, resize
from tests.report.recordings import HOSTILE, LABEL, maze_recordings, table_recording

READY = "return document.querySelector('.hlr').dataset.ready === 'true'"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "replay.html"
    hl.replay([*maze_recordings()], path)
    driver = open_page(path)
    wait(driver, READY)
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def from_the_beginning(driver):
    driver.execute_script(
        "const p = document.querySelector('.hlr').player; p.pause(); p.go(0); p.playButton.blur()"
    )


def wait(driver, condition, seconds=600):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, seconds, poll_frequency=0.05).until(lambda d: d.execute_script(condition))


def player(driver, expression):
    code = f"const p = document.querySelector('.hlr').player; return {expression}"
    return driver.execute_script(code)


def press(driver, key):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(key).perform()


def find(driver, label):
    from selenium.webdriver.common.by import By

    return driver.find_element(By.CSS_SELECTOR, f'[aria-label="{label}"]')


def status(driver):
    return player(driver, "p.status.textContent")


def recording(task, agent):
    return next(r for r in maze_recordings() if (r.task, r.agent) == (task, agent))


def test_page_opens_without_requests_and_without_errors(driver):
    assert requests(driver) == []
    assert console_errors(driver) == []


def test_status_names_each_recorded_step(driver):
    r = recording(2, "LRMax")
    for moment in (0, 5, 14):
        player(driver, f"p.go({moment})")
        s, a = r.states[moment], r.actions[moment]
        row, column = player(driver, f"p.panels[1].recording.scene.positions[{s}]")
        text = status(driver)
        assert f"Episode 1 of 60, step {moment + 1} of 15" in text
        where = f"LRMax: state ({row + 1}, {column + 1}), action {r.action_names[a]}"
        assert f"{where}, reward {r.rewards[moment]:g}" in text


def test_layers_equal_the_recorded_arrays_after_scrubbing_to_any_step(driver):
    r = recording(2, "LRMax")
    total = player(driver, "p.timeline.length")
    for moment in (total - 1, 3, total // 2, 0, total - 2):
        player(driver, f"p.go({moment})")
        frame = player(driver, "p.panels[1].frame.at")
        for name in ("Q", "U", "known", "decided"):
            expected = r.layer(name, r.snapshots[frame]).reshape(-1)
            shown = player(driver, f"[...p.panels[1].recording.layers.{name}]")
            assert shown == pytest.approx(expected.astype(float).tolist(), rel=1e-5)


def test_table_shows_the_values_and_sources_of_the_current_state(driver):
    r = recording(2, "LRMax")
    player(driver, "p.go(7)")
    rows = player(
        driver,
        "[...p.panels[1].here.querySelectorAll('tbody tr')].map((row) => "
        "[...row.children].map((cell) => cell.textContent))",
    )
    snapshot, s = r.snapshots[7], r.states[7]
    for a, (name, value, bound, source) in enumerate(rows):
        assert name.endswith(r.action_names[a])
        assert float(value) == pytest.approx(r.layer("Q", snapshot)[s, a], rel=1e-3)
        assert float(bound) == pytest.approx(r.layer("U", snapshot)[s, a], rel=1e-3)
        decider = r.deciders[r.layer("decided", snapshot)[s, a]]
        known = r.layer("known", snapshot)[s, a]
        assert source in (decider, "learned model" if known else decider)


def test_every_button_moves_the_player(driver):
    find(driver, "One step forward").click()
    assert player(driver, "p.moment") == 1
    find(driver, "One step back").click()
    assert player(driver, "p.moment") == 0
    find(driver, "Next episode").click()
    assert player(driver, "p.position().episode") == 2
    find(driver, "Previous episode").click()
    assert player(driver, "p.position().episode") == 1
    find(driver, "Speed").send_keys("2")
    find(driver, "Play").click()
    wait(driver, "return document.querySelector('.hlr').player.moment > 2")
    find(driver, "Pause").click()
    assert not player(driver, "p.playing")


def test_player_stops_at_the_end_and_starts_again(driver):
    player(driver, "p.go(p.timeline.length - 3)")
    player(driver, "p.play()")
    wait(driver, "return !document.querySelector('.hlr').player.playing")
    assert player(driver, "p.moment === p.timeline.length - 1")
    find(driver, "Play").click()
    assert player(driver, "p.moment < 10")


def test_keyboard_controls_the_player(driver):
    from selenium.webdriver.common.keys import Keys

    press(driver, Keys.ARROW_RIGHT)
    press(driver, Keys.ARROW_RIGHT)
    assert player(driver, "p.moment") == 2
    press(driver, Keys.ARROW_LEFT)
    assert player(driver, "p.moment") == 1
    press(driver, " ")
    assert player(driver, "p.playing") is True
    press(driver, " ")
    assert player(driver, "p.playing") is False
    press(driver, Keys.END)
    assert player(driver, "p.moment === p.timeline.length - 1")
    press(driver, Keys.HOME)
    press(driver, Keys.PAGE_DOWN)
    assert player(driver, "p.position().episode") == 2


def test_slider_and_layers_can_be_chosen(driver):
    driver.execute_script(
        "const p = document.querySelector('.hlr').player; p.slider.value = 20;"
        "p.slider.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert player(driver, "p.moment") == 20
    assert "episode" in player(driver, "p.slider.getAttribute('aria-valuetext')")
    pictures = []
    for i, name in enumerate(("Q", "U", "decided", "known", "none")):
        player(driver, f"p.radios[{i}].click()")
        assert player(driver, "p.layer") == name
        pictures.append(player(driver, "p.panels[1].canvas.toDataURL()"))
    assert len(set(pictures)) == 5
    assert player(driver, "p.legend.childElementCount") == 0
    player(driver, "p.radios[2].click()")
    assert "Lipschitz, task 1" in player(driver, "p.legend.textContent")
    before = player(driver, "p.panels[1].canvas.toDataURL()")
    driver.execute_script("document.querySelector('.hlr-check input').click()")
    assert player(driver, "p.panels[1].canvas.toDataURL()") != before
    driver.execute_script("document.querySelector('.hlr-check input').click()")
    player(driver, "p.radios[0].click()")


def test_agents_and_tasks_can_be_chosen(driver):
    find(driver, "Beside it").send_keys("no other")
    assert player(driver, "p.shown().length") == 1
    find(driver, "Task").send_keys("task 1")
    assert player(driver, "p.panels[0].recording.task") == 1
    find(driver, "Task").send_keys("task 2")
    find(driver, "Beside it").send_keys("LRMax")
    assert player(driver, "p.shown().length") == 2


def test_hostile_names_are_shown_as_text(driver):
    shown = HOSTILE.replace("\x1b", "\\x1b")
    assert player(driver, "p.panels[0].title.textContent") == shown
    assert player(driver, "document.querySelectorAll('.hlr b').length") == 0
    assert shown in driver.title


def test_certificate_of_an_agent_that_knows_the_successors_is_shown(driver):
    shown = player(driver, "p.panels.map(panel => panel.certificate.textContent)")
    certificate = recording(1, "LRMax").certificate
    assert shown == ["", "At the end of the task: " + "".join(certificate.splitlines())]
    assert "certificate" in certificate or "with probability" in certificate


def test_scrubbing_answers_within_100_milliseconds(driver):
    took = player(
        driver,
        "(() => { const start = performance.now(); for (let i = 0; i < 20; i++)"
        " p.go((i * 37) % p.timeline.length); return (performance.now() - start) / 20; })()",
    )
    assert took < 100


def test_every_control_has_a_name(driver):
    unnamed = player(
        driver,
        "[...p.app.querySelectorAll('button, select, input')].filter((node) => "
        "!(node.getAttribute('aria-label') || node.closest('label')?.textContent)).length",
    )
    assert unnamed == 0
    assert player(driver, "p.status.getAttribute('aria-live')") == "polite"
    assert "pairs known" in player(driver, "p.panels[0].canvas.getAttribute('aria-label')")


def test_page_follows_light_and_dark_and_fits_a_phone(driver):
    def surface():
        return player(driver, "p.colours.surface")

    light = surface()
    driver.execute_script("document.documentElement.dataset.theme = 'dark'")
    wait(driver, f"return document.querySelector('.hlr').player.colours.surface !== '{light}'")
    driver.execute_script("delete document.documentElement.dataset.theme")
    resize(driver, 400)
    wait(driver, "return innerWidth === 400")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 400
    resize(driver, 1200)


def test_section_works_in_a_page_that_may_load_nothing(driver, tmp_path):
    policy = (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    )
    meta = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
    section = replay_section(list(maze_recordings()))
    (tmp_path / "page.html").write_text(f"<!doctype html>{meta}<p tabindex=0>x</p>{section}")
    page = driver.current_url
    driver.get((tmp_path / "page.html").as_uri())
    wait(driver, READY)
    press(driver, " ")
    assert not player(driver, "p.playing")  # keys outside of the section belong to the page
    driver.execute_script("document.querySelector('.hlr canvas').focus()")
    press(driver, " ")
    assert player(driver, "p.playing") is True
    assert console_errors(driver) == []
    assert requests(driver) == []
    driver.get(page)
    wait(driver, READY)


def test_page_may_load_nothing_that_is_not_in_it(driver):
    """The browser refuses an image of another address, which it reports to the page."""
    blocked = driver.execute_async_script(
        "const done = arguments[0], image = new Image();"
        "document.addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective));"
        "image.onerror = () => setTimeout(() => done('nothing was refused'), 1000);"
        "image.src = 'http://127.0.0.1:9/image.png';"
    )
    assert blocked == "img-src"
    assert len(console_errors(driver)) == 1  # the refusal
    requests(driver)  # empties the log of requests, which lists refused ones too


def test_task_without_a_map_is_a_table_of_its_states(driver, tmp_path):
    r = table_recording()
    hl.replay(r, tmp_path / "table.html")
    page = driver.current_url
    driver.get((tmp_path / "table.html").as_uri())
    wait(driver, READY)
    player(driver, "p.go(3)")
    current = player(driver, "p.panels[0].table.querySelector('.hlr-current th').textContent")
    assert current == r.state_names[r.states[3]]
    assert f"state {current}, action {r.actions[3]}" in status(driver)
    assert player(driver, "p.panels[0].title.textContent") == f"RMax, task 1 ({LABEL})"
    resize(driver, 500)
    rows = "[...p.panels[0].table.querySelectorAll('tbody tr')]"
    assert player(driver, f"Math.max(...{rows}.map((row) => row.offsetHeight))") < 40  # one line
    resize(driver, 1200)
    assert console_errors(driver) == []
    driver.get(page)
    wait(driver, READY)
