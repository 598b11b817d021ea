"""The Itanium grammar, as far as names of kernels use it: one function for each production."""

import re
from dataclasses import dataclass, field

MAX_DEPTH = 100

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128",
    "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double", "g": "__float128",
    "z": "...",
}  # fmt: skip
_LONG_BUILTIN = {"DF16_": "_Float16", "DF16b": "std::bfloat16_t", "Dn": "decltype(nullptr)",
                 "Dh": "half", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t"}  # fmt: skip
_STANDARD = {"St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
             "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream"}  # fmt: skip
_OPERATORS = {"cl": "()", "ix": "[]", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "eq": "==",
              "lt": "<", "gt": ">", "aS": "=", "nw": " new", "dl": " delete"}  # fmt: skip
_POINTERS = {"P": "*", "R": "&", "O": "&&"}
_QUALIFIERS = {"K": " const", "V": " volatile", "r": " restrict"}

SOURCE_NAME = re.compile(r"[0-9]+")
_BASE36 = re.compile(r"([0-9A-Z]*)_")
_LITERAL_VALUE = re.compile(r"(n?)([0-9a-f]*)E")


class UndecodedError(Exception):
    """The symbol uses a part of the grammar that is not read here, or ends early."""


@dataclass
class Reader:
    """A position in one symbol, the substitutions so far, the latest template arguments."""

    text: str
    position: int = 0
    depth: int = 0
    seen: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def peek(self, length: int = 1) -> str:
        """Return the next characters without taking them; fewer at the end."""
        return self.text[self.position : self.position + length]

    def take(self, prefix: str) -> bool:
        """Return whether `prefix` stands here, and step over it if so."""
        if not self.text.startswith(prefix, self.position):
            return False
        self.position += len(prefix)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Return what matches here and step over it; raise UndecodedError if nothing does."""
        found = pattern.match(self.text, self.position)
        if found is None:
            raise UndecodedError
        self.position = found.end()
        return found

    def remember(self, text: str) -> str:
        """Keep `text` for later substitutions and return it."""
        self.seen.append(text)
        return text


def read_name(reader: Reader) -> str:
    """Read one name, with template arguments; raise UndecodedError at what is not read here."""
    if reader.take("N"):
        return _nested(reader)
    if reader.take("Z"):
        return _local(reader)
    text = _unqualified(reader) if reader.peek() != "S" else _substitution(reader)
    if reader.peek() != "I":
        return text
    reader.remember(text)
    return text + _arguments(reader)


def _local(reader: Reader) -> str:
    """Read `Z <function> E <entity>`: something declared inside a function."""
    outer = read_name(reader)
    while reader.peek() not in ("E", ""):
        _type(reader)
    if not reader.take("E"):
        raise UndecodedError
    return outer if reader.take("s") else f"{outer}::{read_name(reader)}"


def _nested(reader: Reader) -> str:
    """Read the parts of `N ... E`; every prefix of them can be referred to later."""
    while reader.peek() in _QUALIFIERS:
        reader.position += 1
    text = ""
    while not reader.take("E"):
        if reader.peek() == "I":
            text += _arguments(reader)
        elif reader.peek() == "S":
            text = _joined(text, _substitution(reader))
            continue
        elif reader.peek() == "T":
            text = _joined(text, _parameter(reader))
        else:
            text = _joined(text, _unqualified(reader))
        if reader.peek() != "E":
            reader.remember(text)
    return text


def _joined(prefix: str, part: str) -> str:
    return f"{prefix}::{part}" if prefix else part


def _unqualified(reader: Reader) -> str:
    reader.take("L")
    if reader.peek().isdigit():
        return _source_name(reader)
    if reader.peek() == "U":
        return _closure(reader)
    if reader.peek() in ("C", "D") and reader.peek(2)[1:].isdigit():
        reader.position += 2
        return "{ctor}"
    code = reader.peek(2)
    if code not in _OPERATORS:
        raise UndecodedError
    reader.position += 2
    return "operator" + _OPERATORS[code]


def _source_name(reader: Reader) -> str:
    length = int(reader.match(SOURCE_NAME).group()[:6])
    word = reader.peek(length)
    if len(word) < length:
        raise UndecodedError
    reader.position += length
    while reader.take("B"):
        _source_name(reader)
    return "(anonymous namespace)" if word.startswith("_GLOBAL__N_") else word


def _closure(reader: Reader) -> str:
    """Read a lambda (`Ul <parameter types> E <number> _`) or an unnamed type (`Ut`)."""
    if reader.take("Ut"):
        reader.match(_BASE36)
        return "{unnamed type}"
    if not reader.take("Ul"):
        raise UndecodedError
    while not reader.take("E"):
        _type(reader)
    reader.match(_BASE36)
    return "{lambda}"


def _substitution(reader: Reader) -> str:
    code = reader.peek(2)
    if code in _STANDARD:
        reader.position += 2
        standard = _STANDARD[code]
        if code != "St" or reader.peek() in ("I", "E"):
            return standard
        return reader.remember(f"std::{_unqualified(reader)}")
    reader.position += 1
    return _numbered(reader, reader.seen)


def _parameter(reader: Reader) -> str:
    """Read `T_`, `T0_`: a template argument of the function; it may not be known yet."""
    reader.position += 1
    index = reader.match(_BASE36).group(1)
    number = int(index, 36) + 1 if index else 0
    return reader.arguments[number] if number < len(reader.arguments) else f"T{number + 1}"


def _numbered(reader: Reader, values: list[str]) -> str:
    index = reader.match(_BASE36).group(1)
    number = int(index, 36) + 1 if index else 0
    if number >= len(values):
        raise UndecodedError
    return values[number]


def _arguments(reader: Reader) -> str:
    """Read `I ... E` and keep the arguments for `T_`."""
    reader.position += 1
    values = []
    while not reader.take("E"):
        values.append(_argument(reader))
    reader.arguments = values
    return f"<{', '.join(value for value in values if value)}>"


def _argument(reader: Reader) -> str:
    if reader.take("J"):
        values = []
        while not reader.take("E"):
            values.append(_argument(reader))
        return ", ".join(values)
    if reader.take("L"):
        return _literal(reader)
    if reader.take("X"):
        return _expression(reader)
    return _type(reader)


def _expression(reader: Reader) -> str:
    """Read the only expression that kernels commonly hold, the address of a function."""
    if not reader.take("adL"):
        raise UndecodedError
    value = _literal(reader)
    if not reader.take("E"):
        raise UndecodedError
    return "&" + value


def _literal(reader: Reader) -> str:
    if reader.take("_Z"):
        value = read_name(reader)
        while not reader.take("E"):
            _type(reader)
        return value
    kind = _type(reader)
    sign, digits = reader.match(_LITERAL_VALUE).groups()
    if kind == "bool":
        return "true" if digits == "1" else "false"
    value = ("-" if sign else "") + digits
    return value if kind in _BUILTIN.values() else f"({kind}){value}"


def _type(reader: Reader) -> str:
    reader.depth += 1
    if reader.depth > MAX_DEPTH or not reader.peek():
        raise UndecodedError
    text = _read_type(reader)
    reader.depth -= 1
    return text


def _read_type(reader: Reader) -> str:
    code = reader.peek()
    if code in _BUILTIN:
        reader.position += 1
        return _BUILTIN[code]
    if code in _POINTERS or code in _QUALIFIERS:
        reader.position += 1
        suffix = _POINTERS.get(code) or _QUALIFIERS[code]
        return reader.remember(_type(reader) + suffix)
    if code in "FADM":
        return _compound(reader)
    if code == "T":
        return _templated(reader, reader.remember(_parameter(reader)))
    if code == "S" and reader.peek(2) != "St":
        return _templated(reader, _substitution(reader))
    text = read_name(reader)
    return text if text in reader.seen[-1:] else reader.remember(text)


def _templated(reader: Reader, text: str) -> str:
    return reader.remember(text + _arguments(reader)) if reader.peek() == "I" else text


def _compound(reader: Reader) -> str:
    """Read function types, arrays, packs, pointers to members and two-letter builtins."""
    for code, text in _LONG_BUILTIN.items():
        if reader.take(code):
            return text
    if reader.take("Dp"):
        return reader.remember(_type(reader))
    if reader.take("F"):
        return reader.remember(_function(reader))
    if reader.take("A"):
        size = reader.match(re.compile(r"([0-9]*)_")).group(1)
        return reader.remember(f"{_type(reader)}[{size}]")
    if reader.take("M"):
        owner, member = _type(reader), _type(reader)
        return reader.remember(f"{member} {owner}::*")
    raise UndecodedError


def _function(reader: Reader) -> str:
    types = []
    while not reader.take("E"):
        types.append(_type(reader))
    return f"{types[0] if types else 'void'} ({', '.join(types[1:])})"
