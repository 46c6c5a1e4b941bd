"""Formulas of pages and docstrings become MathML that is well-formed and says the same."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from docutils import nodes
from docutils.utils import new_document

from published import code_blocks
from published.site import formulas, mathematics

INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def tree(text, typeset=formulas.inline):
    return ElementTree.fromstring(f"<p>{typeset(text).replace('<wbr>', '')}</p>")


def shown(text, typeset=formulas.inline):
    """The characters of a formula in the order of the page."""
    return re.sub(r"\s", "", "".join(tree(text, typeset).itertext()))


def tags(text, typeset=formulas.inline):
    return [each.tag for each in tree(text, typeset).iter()]


@pytest.mark.parametrize("page", sorted(mathematics.PAGES))
def test_every_formula_of_a_page_is_typeset(page):
    text = code_blocks.BLOCK.sub("", (code_blocks.DOCS / f"{page}.md").read_text("utf-8"))
    found = [c.replace(r"\|", "|") for c in CODE.findall(text)]
    within_lines = [code for code in found if mathematics.is_formula(code, page)]
    alone = INDENTED.findall(text)
    assert within_lines
    for formula in within_lines:
        assert tree(formula).find(".//math") is not None
    for formula in alone:
        assert tree(formula, formulas.display).find(".//math") is not None


@pytest.mark.parametrize("code", ["Q*", "1 - δ", "|R̂ - R| ≤ ε", "D_sa(M ‖ M̄)", "Q >= Q* - c"])
def test_code_with_mathematical_characters_is_a_formula_on_every_page(code):
    assert mathematics.is_formula(code, "tasks")


@pytest.mark.parametrize(
    "code",
    ["K", "(s, a)", "V >= Q", "v_max", "[lo, hi]", "[0, 1]", "t = 0.1", "2K", "E[r | i] = 0"],
)
def test_single_letters_are_formulas_on_mathematical_pages_only(code):
    assert mathematics.is_formula(code, "theory")
    assert not mathematics.is_formula(code, "tasks")


@pytest.mark.parametrize(
    "code",
    [
        "d_max",
        "n_known=1",
        "[s, a]",
        "agent.Q",
        "hl.RMax",
        "1e-8",
        "test_q_and_u_are_bounds",
        "--out",
    ],
)
def test_code_stays_code(code):
    assert not mathematics.is_formula(code, "theory")


def test_scripts_accents_and_roots_have_their_elements():
    assert shown("Q*_M̄(s, a)") == "Q∗M¯(s,a)".replace("∗M¯", "M¯∗")
    assert tags("V^π_M").count("msubsup") == 1
    assert tags("R̄̂").count("mover") == 2
    assert tags("V̲").count("munder") == 1
    assert "msqrt" in tags("√(H/n)")
    assert shown("√(H/n)") == "H/n"
    assert shown("2^(K-1)") == "2K−1"
    assert shown("ε²") == "ε2"


def test_sums_and_maxima_have_limits():
    assert tags("Σ_{i <= n} V_i").count("munder") == 1
    assert shown("max_a',s' d(s', a')") == "maxa′,s′d(s′,a′)"
    assert tags("n_known ≥ 1").count("msub") == 1


def test_bars_enclose_what_they_stand_next_to():
    assert shown("γ Σ V̄ |T - T̄|") == "γ∑V¯|T−T¯|"
    assert shown("d(M ‖ M̄)") == "d(M‖M¯)"
    with pytest.raises(ValueError, match="not closed"):
        formulas.inline("|R - R̄")


def test_a_slash_between_spaces_of_a_display_is_a_fraction_of_the_factors_beside_it():
    text = "Bq + γ low / (1-γ)  ≤  Q*"
    fraction = tree(text, formulas.display).find(".//mfrac")
    assert ["".join(part.itertext()) for part in fraction] == ["γlow", "1−γ"]
    assert "mfrac" not in tags(text)


def test_rows_are_aligned_at_their_first_relation():
    rows = tree("x = 1    if a > 0,\ny = 2    otherwise", formulas.display).findall(".//mtr")
    cells = [["".join(cell.itertext()).strip() for cell in row] for row in rows]
    assert cells == [["x", "=1", "if\N{NO-BREAK SPACE}a>0,"], ["y", "=2", "otherwise"]]


def test_row_without_a_relation_is_a_right_side():
    first, second = tree("x = 1 + 2,\n+ 3", formulas.display).findall(".//mtr")
    assert ["".join(cell.itertext()) for cell in first] == ["x", "=1+2,"]
    assert ["".join(cell.itertext()) for cell in second] == ["", "+3"]


def test_punctuation_stays_on_the_line_of_the_formula_before_it():
    code = [nodes.literal("", text) for text in ("tol", "Q*", "V*")]
    words = [nodes.Text(", "), nodes.Text(", "), nodes.Text(".")]
    page = nodes.paragraph(
        "", "", *[each for pair in zip(code, words, strict=True) for each in pair]
    )
    document = new_document("page")
    document += page
    app = SimpleNamespace(env=SimpleNamespace(docname="theory"))
    mathematics.mark_formulas(app, document)
    assert page.astext() == "tol, Q* V*"
    assert [each.get("after") for each in page.findall(nodes.math)] == [",", "."]


def test_calls_of_functions_stay_code_in_a_formula():
    code = tree("lipschitz_bound(m, m_bar) >= Q*_M").find(".//mtext[@class='code']")
    assert code.text == "lipschitz_bound(m, m_bar)"


@pytest.mark.parametrize("text", ["Q = [s", "Q & ε", "Q_"])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match=r"formula|bracket"):
        formulas.inline(text)
