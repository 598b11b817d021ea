"""Reading of Itanium-mangled symbols (`_Z...`), as far as a kernel's name needs it.

A capture normally carries demangled names; mangled ones reach us from symbol tables, logs and
tools that skip the demangler. `demangle` prints the name with namespaces and template arguments
and leaves out the return type and the parameter list, since no rule looks at them.

The grammar's expressions (`X ... E` beyond the address of a function, `decltype`) are not decoded.
A symbol that uses them, or is cut off, is answered in outline: its first identifiers as the name,
the later ones as template arguments. That still holds the words that rules look for.
"""

import re

from kernelscope.mangled_names.grammar import SOURCE_NAME, Reader, UndecodedError, read_name

MAX_LENGTH = 20_000

_LEADING = re.compile(r"_Z(?:N[KVr]*(?:St|L)?)?")
_LITERAL = re.compile(r"L[a-z]n?[0-9]+E")


def demangle(symbol: str) -> str:
    """Return the readable name of an Itanium symbol, or `symbol` itself when it is not one."""
    if not symbol.startswith("_Z"):
        return symbol
    reader = Reader(symbol[:MAX_LENGTH], position=2)
    try:
        return read_name(reader)
    except UndecodedError:
        return _outline(symbol[:MAX_LENGTH]) or symbol


def _outline(symbol: str) -> str:
    """Return the first identifiers of a symbol as its name, the later ones as its arguments."""
    leading = _LEADING.match(symbol)
    start = leading.end() if leading else 2
    path, end = _identifiers(symbol, start, together=True)
    rest, _ = _identifiers(_LITERAL.sub("", symbol[end:]), 0, together=False)
    return "::".join(path) + (f"<{', '.join(rest)}>" if path and rest else "")


def _identifiers(symbol: str, position: int, *, together: bool) -> tuple[list[str], int]:
    """Return length-prefixed identifiers from a position on, and where they end.

    With `together` reading stops at the first thing that is no identifier.
    """
    found: list[str] = []
    find = SOURCE_NAME.match if together else SOURCE_NAME.search
    while (digits := find(symbol, position)) is not None:
        end = digits.end() + int(digits.group()[:6])
        word = symbol[digits.end() : end]
        if word.isidentifier() and not word.startswith("_GLOBAL__N_"):
            found.append(word)
        position = end if word.isidentifier() else digits.end()
    return found, position
