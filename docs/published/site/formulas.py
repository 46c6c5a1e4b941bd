"""Formulas in plain Unicode, as the sources have them, translated to MathML.

Pages and docstrings write `Q⁺(s, a) ≤ R̂ + γ Σ_s' T̂ V̄(s')`, which is readable as it stands, also in
a terminal. This module typesets it: accents, scripts, roots, sums with limits, brackets that grow,
fractions (a `/` between spaces in a display), and rows that are aligned at their first relation.
A formula that cannot be read raises `ValueError`.
"""

import re
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple
from unicodedata import normalize

TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?|[½¼])"
    r"|(?P<code>[\w.]+\([^()]*[a-z]_bar[^()]*\)"  # a call
    r"|[A-Za-z]\w*(?:\.[A-Za-z]\w*)+|[A-Za-z]{2,}(?:_[a-z]{3,})+|[a-z]_bar)"
    r"|(?P<word>[A-Za-z]{2,}(?:-[a-z]+)*(?![\u0300-\u036f])|(?<=\S)-[a-z]{4,})"
    r"|(?P<letter>(?:[^\W\d_]|[⊥∞])[\u0300-\u036f]*)"
    r"|(?P<operator><=|>=|<-|\+=|.)",
    re.DOTALL,
)
ACCENTS = {"\u0302": "ˆ", "\u0304": "¯", "\u0305": "¯", "\u0303": "˜", "\u0332": "_"}
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+−", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
FENCES = {"(": ")", "[": "]", "{": "}", "⌈": "⌉"}
LARGE = {"Σ": "∑", "Π": "∏", **{w: w for w in ("max", "min", "argmin", "argmax")}}
RELATIONS = {"<=": "≤", ">=": "≥", "<-": "←", "+=": "+=", "~": "∼", **{c: c for c in "=<>≤≥≠←∝↦∈"}}
SIGNS = {"-": "−", "+": "+", "±": "±", "·": "·", "*": "·"}
NAMES = frozenset("ln exp hi lo low high span floor supp tie tol Var KL TV top rate".split())
PRODUCTS = frozenset(("Fx", "Fy", "Bq", "SA"))  # two letters each, and no words
PRIME = '<mo lspace="0" rspace="0">′</mo>'  # not raised, because Chromium makes it too small then
BREAKS = ("relation", "sign", "slash")
SPACED = 'lspace=".28em" rspace=".28em"'
OPERATORS = ("relation", "sign", "separator")
WIDE = 60  # characters of a line that is set as several rows
BREAKABLE = 16  # characters of a formula within a line that can be broken


class Token(NamedTuple):
    """A token, and whether white space precedes it."""

    kind: str
    text: str
    spaced: bool


class Item(NamedTuple):
    """A piece of MathML. Its kind decides about spaces, line breaks and extents of fractions."""

    xml: str
    kind: str
    inside: str = ""  # of parentheses, which a fraction does not need


def inline(source: str, after: str = "") -> str:
    """Return a formula within a line of text, which can be broken before its operators.

    The punctuation `after` it stays on the line of its end.
    """
    parts = [""]
    for item in Reader(source).items():
        if item.kind in BREAKS and parts[-1] and len(source) > BREAKABLE:
            parts.append("")
        parts[-1] += item.xml
    *first, last = (f"<math>{part}</math>" for part in parts)
    end = f'<span class="formula-end">{last}{after}</span>' if after else last
    return "<wbr>".join([*first, end])


def display(source: str) -> str:
    """Return a formula that stands alone, in rows that are aligned at their first relations."""
    rows = [[Reader(text, display=True).items() for text in row] for row in _rows(source)]
    is_aligned = any(item.kind == "relation" for row in rows for item in row[0])
    cells = [(_at_relation(row) if is_aligned else row) for row in rows]
    width = max(map(len, cells))
    table = "".join(
        f"<mtr>{''.join(f'<mtd>{_joined(cell)}</mtd>' for cell in row)}"
        f"{'<mtd></mtd>' * (width - len(row))}</mtr>"
        for row in cells
    )
    kind = "aligned" if is_aligned else "columns"
    single = "".join(_joined(cell) for cell in cells[0])
    content = (
        single
        if len(rows) == len(rows[0]) == 1
        else f'<mtable displaystyle="true">{table}</mtable>'
    )
    return f'<div class="formula {kind}"><math display="block">{content}</math></div>\n'


def _joined(items: list[Item]) -> str:
    return "".join(item.xml for item in items)


def _at_relation(row: list[list[Item]]) -> list[list[Item]]:
    """Split the first segment of a row before its first relation; others are right sides."""
    first = row[0]
    at = next((i for i, item in enumerate(first) if item.kind == "relation"), 0)
    return [first[:at], first[at:], *row[1:]]


def _rows(source: str) -> list[list[str]]:
    """Return the segments of each row, which are separated by several spaces outside brackets."""
    lines: list[str] = []
    for line in source.strip("\n").split("\n"):
        if lines and _depth(lines[-1]):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    rows = [list(_segments(line.strip())) for line in lines]
    is_table = len({len(row) for row in rows}) == 1 and (len(rows) > 1 or len(lines[0]) <= WIDE)
    return rows if is_table else [each for row in rows for each in _with_conditions(row)]


def _depth(text: str) -> int:
    return sum(text.count(a) - text.count(b) for a, b in FENCES.items())


def _segments(line: str) -> Iterator[str]:
    parts = re.split(r"\s{2,}", line)
    current = parts[0]
    for part in parts[1:]:
        is_operator = TOKEN.match(part)[0] in RELATIONS | SIGNS  # type: ignore[index]
        if _depth(current) or is_operator or current.split()[-1] in RELATIONS | SIGNS:
            current += " " + part
        else:
            yield current
            current = part
    yield current


def _with_conditions(row: list[str]) -> Iterator[list[str]]:
    """Give each segment a row of its own, but keep a condition beside its formula."""
    current: list[str] = []
    for segment in row:
        if current and not re.match(r"[a-z]{2,}\b(?![(_])", segment):
            yield current
            current = []
        current.append(segment)
    yield current


class Reader:
    """Reads a formula from left to right."""

    def __init__(self, source: str, *, display: bool = False) -> None:
        text = "".join(normalize("NFD", c) if c.isalpha() else c for c in source.strip())
        self.source, self.display = source, display
        self.tokens: list[Token] = []
        spaced = False
        for match in TOKEN.finditer(text):
            kind = str(match.lastgroup)
            if kind != "space":
                self.tokens.append(Token(kind, match[0], spaced))
            spaced = kind == "space"
        self.at = self.depth = 0

    def items(self, end: Callable[[], bool] | None = None) -> list[Item]:
        """Read up to the end, or up to the token where `end` returns True."""
        items: list[Item] = []
        while self.token is not None and not (end and end()):
            item = self._item(items)
            if item is not None:
                items.append(item)
        if end and self.token is None:
            raise ValueError(f"a bracket is not closed: {self.source}")
        return items

    @property
    def token(self) -> Token | None:
        """The next token, None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _ahead(self, n: int = 1) -> Token | None:
        return self.tokens[self.at + n] if self.at + n < len(self.tokens) else None

    def _is_tight(self, token: Token | None) -> bool:
        return token is not None and not token.spaced

    def _item(self, before: list[Item]) -> Item | None:
        token = self.token
        assert token is not None
        text, after = token.text, self._ahead()
        is_member = text == "in" and before and before[-1].kind == "atom" and token.spaced
        if text in RELATIONS or is_member:
            self.at += 1
            return Item(_operator(RELATIONS.get(text, "∈"), SPACED), "relation")
        is_infix = bool(before) and before[-1].kind not in (*OPERATORS, "large", "text")
        if text in SIGNS:
            self.at += 1
            form = "infix" if is_infix else "prefix"
            return Item(_operator(SIGNS[text], f'form="{form}"'), "sign" if is_infix else "minus")
        if text == "/":
            self.at += 1
            is_fraction = self.display and self.depth == 0 and token.spaced
            if is_fraction and after is not None and after.text not in LARGE:
                before[:] = self._fraction(before)
                return None
            return Item(_operator("/", 'lspace="0" rspace="0"'), "slash")
        if text in "|‖" and token.spaced and not self._is_tight(after):
            self.at += 1
            return Item(_operator(text, f'form="infix" stretchy="false" {SPACED}'), "separator")
        if text in ",;:.…∎":
            self.at += 1
            space = SPACED if text in ":∎" and token.spaced else 'separator="true"'
            return Item(_operator(text, space), "separator")
        return self._atom(before)

    def _fraction(self, before: list[Item]) -> list[Item]:
        """Return the items before a slash with the last factors above what follows the slash."""
        boundary = (*OPERATORS, "minus", "large", "text", "slash")
        first = max((i + 1 for i, x in enumerate(before) if x.kind in boundary), default=0)
        below = [self._atom([])]
        while self._is_tight(self.token) and self.token.text not in (
            *RELATIONS,
            *SIGNS,
            *",;:.)]}⌉|‖/",
        ):  # type: ignore[union-attr]
            below.append(self._atom(below))
        parts = [_row(_without_parentheses(x)) for x in (before[first:], below)]
        return [*before[:first], Item(f"<mfrac>{''.join(parts)}</mfrac>", "atom")]

    def _atom(self, before: list[Item]) -> Item:
        token = self.token
        if token is None:
            raise ValueError(f"something is missing at the end: {self.source}")
        self.at += 1
        text, kind = token.text, token.kind
        opens = text in FENCES or (text in "|‖" and not self._closes(token))
        if opens:
            end = FENCES.get(text, text)
            inside = self._until(end)
            stretchy = str(self.display).lower()
            opening, closing = (
                _operator(c, f'form="{form}" stretchy="{stretchy}"')
                for c, form in ((text, "prefix"), (end, "postfix"))
            )
            xml = f"<mrow>{opening}{inside}{closing}</mrow>"
            return self._scripts(Item(xml, "atom", inside if text == "(" else ""))
        if text == "√":
            argument = self._atom([])
            return self._scripts(Item(f"<msqrt>{argument.inside or argument.xml}</msqrt>", "atom"))
        if text in LARGE:
            return self._large(text)
        if text in PRODUCTS:
            return self._scripts(Item("".join(f"<mi>{c}</mi>" for c in text), "atom"))
        if kind == "letter":
            return self._scripts(Item(_letter(text), "atom"))
        if kind == "number":
            return self._scripts(Item(f"<mn>{text}</mn>", "atom"))
        if kind == "code":
            return self._scripts(Item(f'<mtext class="code">{text}</mtext>', "atom"))
        if kind == "word":
            return self._word(token, before)
        raise ValueError(f"{text!r} cannot be read in the formula: {self.source}")

    def _closes(self, token: Token) -> bool:
        """Whether a bar ends what it encloses: bars stand next to what they enclose."""
        before = self.tokens[self.at - 2] if self.at > 1 else None
        return not token.spaced and before is not None and before.text not in (*FENCES, "-")

    def _until(self, closing: str) -> str:
        def end() -> bool:
            token = self.token
            assert token is not None
            return token.text == closing and (closing not in "|‖" or not token.spaced)

        self.depth += 1
        inside = _joined(self.items(end))
        self.depth -= 1
        self.at += 1
        return inside

    def _word(self, token: Token, before: list[Item]) -> Item:
        text, after = token.text, self.token
        is_function = self._is_tight(after) and after.text == "("  # type: ignore[union-attr]
        if text in NAMES or is_function:
            follows = bool(before) and before[-1].kind == "atom" and token.spaced
            left = "<mspace width='.17em'/>" if follows else ""
            item = self._scripts(Item(f'<mi mathvariant="normal">{text}</mi>', "atom"))
            after = self.token
            is_applied = (
                after is not None and after.spaced and after.kind not in ("operator", "word")
            )
            right = "<mspace width='.17em'/>" if is_applied else ""
            return Item(f"{left}{item.xml}{right}", "atom")
        left = "\N{NO-BREAK SPACE}" if token.spaced and before else ""
        words = [text]
        while self.token is not None and self.token.spaced and self._is_text():
            words.append(self.token.text)
            self.at += 1
        right = "\N{NO-BREAK SPACE}" if self.token is not None and self.token.spaced else ""
        return Item(f"<mtext>{left}{escape(' '.join(words))}{right}</mtext>", "text")

    def _is_text(self) -> bool:
        """Whether the next token goes on with a sentence."""
        token, after = self.token, self._ahead()
        assert token is not None
        if token.text == "a":
            return after is not None and after.spaced and after.kind == "word"
        is_function = self._is_tight(after) and after.text == "("  # type: ignore[union-attr]
        return (
            token.kind == "word"
            and token.text not in (*NAMES, *LARGE, *PRODUCTS)
            and not is_function
        )

    def _large(self, text: str) -> Item:
        """Read an operator whose scripts are limits."""
        is_applied = self._is_tight(self.token) and self.token.text == "("  # type: ignore[union-attr]
        space = "" if text in "ΣΠ" else f' lspace=".17em" rspace="{0 if is_applied else ".17em"}"'
        xml = f'<mo form="prefix" movablelimits="true"{space}>{LARGE[text]}</mo>'
        base = Item(xml, "atom" if is_applied else "large")
        return self._scripts(base, limits=True)

    def _scripts(self, base: Item, *, limits: bool = False) -> Item:
        """Read what is raised and lowered right after a base."""
        above: list[str] = []
        below: list[str] = []
        while self._is_tight(self.token):
            text = self.token.text  # type: ignore[union-attr]
            after = self._ahead()
            if text in RAISED:
                above.append(_sign_or_number(RAISED[text]))
            elif text in LOWERED:
                below.append(f"<mn>{LOWERED[text]}</mn>")
            elif text == "'":
                base = Item(_row(base.xml + PRIME), base.kind)
            elif text == "*" and not (self._is_tight(after) and after.kind in ("letter", "number")):  # type: ignore[union-attr]
                above.append("<mo>∗</mo>")
            elif text in "_^":
                self.at += 1
                (below if text == "_" else above).append(self._script(text, limits=limits))
                continue
            else:
                break
            self.at += 1
        if not above and not below:
            return base
        name = {(True, True): "subsup", (True, False): "sub", (False, True): "sup"}
        under = {"subsup": "underover", "sub": "under", "sup": "over"}
        which = name[bool(below), bool(above)]
        tag = under[which] if limits else which
        parts = base.xml, *(_row("".join(x)) for x in (below, above) if x)
        return Item(f"<m{tag}>{_row(parts[0])}{''.join(parts[1:])}</m{tag}>", base.kind)

    def _script(self, which: str, *, limits: bool) -> str:
        token = self.token
        if token is None or token.spaced:
            raise ValueError(f"nothing follows {which} in the formula: {self.source}")
        if token.text in "{(":
            self.at += 1
            return self._until(FENCES[token.text])
        parts = [self._script_part(which)]
        while which == "_" and self._is_tight(self.token):
            text, after = self.token.text, self._ahead()  # type: ignore[union-attr]
            is_list = limits and text == "," and self._is_tight(after)
            if is_list:
                self.at += 1
                parts.append("<mo separator='true'>,</mo>")
            if not is_list and self.token.kind != "letter":  # type: ignore[union-attr]
                break
            parts.append(self._script_part(which))
        return "".join(parts)

    def _script_part(self, which: str) -> str:
        token = self.token
        assert token is not None
        self.at += 1
        if token.kind == "word" and len(token.text) == 2 and token.text not in NAMES:
            xml = "".join(f"<mi>{c}</mi>" for c in token.text)
        elif token.kind == "letter":
            xml = _letter(token.text)
        elif token.kind in ("word", "code"):
            xml = f"<mtext>{token.text}</mtext>"
        elif token.kind == "number":
            xml = f"<mn>{token.text}</mn>"
        else:
            raise ValueError(f"{token.text!r} cannot be read after {which}: {self.source}")
        while which == "_" and self._is_tight(self.token) and self.token.text in "'⁺⁻":  # type: ignore[union-attr]
            text = self.token.text  # type: ignore[union-attr]
            if text == "'":
                xml += PRIME
            else:
                xml = f"<msup>{_row(xml)}{_sign_or_number(RAISED[text])}</msup>"
            self.at += 1
        return xml


def _row(xml: str) -> str:
    return f"<mrow>{xml}</mrow>"


def _without_parentheses(items: list[Item]) -> str:
    if len(items) == 1 and items[0].inside:
        return items[0].inside
    return _joined(items)


def _operator(text: str, attributes: str = "") -> str:
    return f"<mo {attributes}>{escape(text)}</mo>" if attributes else f"<mo>{escape(text)}</mo>"


def _sign_or_number(text: str) -> str:
    return f"<mn>{text}</mn>" if text.isdigit() else f"<mo>{text}</mo>"


def _letter(text: str) -> str:
    """Return a letter with its marks: hats, bars and tildes above it, a line below it.

    They are not accents to the browser, because Chromium sets those into tall letters.
    """
    xml = f"<mi>{text[0]}</mi>"
    for mark in text[1:]:
        tag = "munder" if mark == "\u0332" else "mover"
        xml = f'<{tag}>{xml}<mo stretchy="false">{ACCENTS[mark]}</mo></{tag}>'
    return xml
