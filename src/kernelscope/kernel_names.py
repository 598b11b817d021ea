"""What can be read out of a kernel's name: its base name, its normalised full name, its operations.

Three texts are made of each name, and rules look at exactly one of them (see `name_texts`):

`base`
    The function's own name, without return type, namespaces, template arguments and parameter list:
    `kernel` for `std::enable_if<...>::type internal::gemvx::kernel<...>(...)`.
`full`
    The demangled name with differences between demanglers taken out: c++filt prints `4`, `true`,
    `4ul`, `T*` where Nsight Systems prints `(int)4`, `(bool)1`, `(unsigned long)4`, `T *`. Both
    become the former, without integer suffix, and anonymous namespaces are dropped.
`inductor`
    For the Triton kernels that Inductor generates, the kind of kernel and the operations fused
    into it, separated by spaces: `poi mul silu slice`. Null for all other names.

Work over many names is done in polars expressions; only mangled names (`_Z...`) are read one by
one. No more than `MAX_LENGTH` characters of a name are looked at, so that a name of megabytes
costs no more than a long one.
"""

import tomllib
from functools import cache
from importlib import resources

import polars as pl

from kernelscope.mangled_names import demangle

MAX_LENGTH = 20_000
MAX_NESTING = 64

# Casts as Nsight Systems prints them, and integer suffixes as c++filt does.
_INTEGER_CAST = r"\((?:unsigned |signed )?(?:int|long long|long|short|char)\)(-?[0-9])"
_INTEGER_SUFFIX = r"\b([0-9]+)(?:ull|ul|ll|u|l)\b"
_LITERALS = {
    "(bool)1": "true",
    "(bool)0": "false",
    "<unnamed>::": "",
    "(anonymous namespace)::": "",
    "operator ()": "operator()",
    " *": "*",
    " &": "&",
}

# A name in C's or Triton's way, a function without template arguments, or a template function whose
# return type is void: in these the text before the first bracket is the name.
_PLAIN = r"^([A-Za-z0-9_$.:~%-]+)(?:\(|$)"
_VOID_TEMPLATE = r"^(?:static |inline |__global__ )*void ([A-Za-z0-9_$:~]+)(?:[<({\[]|$)"
_PARENTHESES = r"\([^()]*\)"
_ANGLES = r"<[^<>]*>"

# Triton 2 appended the kinds of the arguments to a kernel's name: `_fwd_kernel_0d1d2de3c`.
_TRITON2_SUFFIX = r"_0(?:d|de|c)?1(?:d|de|c)?2?[0-9dec]*$"

_INDUCTOR = r"^triton_(?:([a-z]{2,3})_)?fused(_.*?)??(?:_[0-9]+)?$"


def name_texts(names: pl.DataFrame) -> pl.DataFrame:
    """Return the columns `base`, `full` and `inductor` (String, nullable), in the order of `names`.

    `names` has the String columns `name` and `short_name`, both nullable. The full name decides;
    the short one stands in where the full one is missing.
    """
    texts = names.select(
        pl.coalesce(pl.col("name"), pl.col("short_name")).str.slice(0, MAX_LENGTH).alias("name")
    ).with_columns(_demangled(pl.col("name")).alias("name"))
    return texts.select(
        _base_names(texts.select(normalised(pl.col("name"))).to_series()).alias("base"),
        normalised(pl.col("name")).alias("full"),
        operations(pl.col("name")).alias("inductor"),
    )


def base_name(name: str) -> str:
    """Return the base name of one kernel name."""
    row = name_texts(pl.DataFrame({"name": [name], "short_name": [None]}, schema=_NAME_SCHEMA))
    return str(row["base"][0])


_NAME_SCHEMA = {"name": pl.String, "short_name": pl.String}


def normalised(name: pl.Expr) -> pl.Expr:
    """Return the expression of the full name without the differences between demanglers."""
    return (
        name.str.replace_many(list(_LITERALS), list(_LITERALS.values()))
        .str.replace_all(_INTEGER_CAST, "${1}")
        .str.replace_all(_INTEGER_SUFFIX, "${1}")
        .str.replace_all("> >", ">>", literal=True)
        .str.replace_all("> >", ">>", literal=True)
    )


def operations(name: pl.Expr) -> pl.Expr:
    """Return the expression of an Inductor kernel's kind and operations, null for other names.

    Known operations are found by longest match, so `fused_add_rms_norm` is one operation and not
    `add`; a word that is in no known operation stands for itself.
    """
    parts = name.str.extract_groups(_INDUCTOR)
    listed = (
        parts.struct.field("2")
        .fill_null("")
        .str.replace_all("_", "-", literal=True)
        .str.extract_all(_operation_pattern())
        .list.join(" ")
        .str.replace_all("-", "_", literal=True)
    )
    kind = parts.struct.field("1").fill_null("poi")
    return (
        pl.when(name.str.contains(_INDUCTOR))
        .then(pl.concat_str(kind, listed, separator=" ").str.strip_chars_end())
        .otherwise(None)
    )


@cache
def _operation_pattern() -> str:
    """Return a pattern of all operations, longest first; the underscores of names are dashes in it.

    The Rust engine has no look-around. Between a letter and a dash there is a word boundary, and
    there is none at an underscore.
    """
    words = sorted(operation_names(), key=len, reverse=True)
    plain = "|".join(word.replace("_", "-") for word in words if not word.startswith("_"))
    leading = "|".join(word.replace("_", "-") for word in words if word.startswith("_"))
    return rf"(?:{leading})\b|\b(?:{plain})\b|[A-Za-z0-9]+"


@cache
def operation_names() -> tuple[str, ...]:
    """Return the ATen and custom operations that can stand in Inductor kernel names."""
    text = resources.files("kernelscope.rules").joinpath("operations.toml").read_text("utf-8")
    groups: dict[str, list[str]] = tomllib.loads(text)["operations"]
    return tuple(word for words in groups.values() for word in words)


def _demangled(name: pl.Expr) -> pl.Expr:
    mangled = name.str.starts_with("_Z")
    return (
        pl.when(mangled)
        .then(pl.when(mangled).then(name).map_elements(demangle, return_dtype=pl.String))
        .otherwise(name)
    )


def _base_names(full: pl.Series) -> pl.Series:
    """Return the base names of normalised names, counting brackets only where that is needed."""
    easy = full.str.extract(_PLAIN).fill_null(full.str.extract(_VOID_TEMPLATE))
    hard = easy.is_null() & full.is_not_null()
    if hard.any():
        easy = easy.scatter(hard.arg_true(), _without_brackets(full.filter(hard)))
    return _last_component(easy)


def _without_brackets(full: pl.Series) -> pl.Series:
    """Return names without parameter lists, template arguments and return type.

    Parentheses go first: comparison signs in template arguments always stand inside parentheses.
    """
    text = full.str.replace_all("operator()", "operator_call", literal=True)
    text = text.str.replace_all("->", "", literal=True)
    for pattern in (_PARENTHESES, _ANGLES):
        text = _removed_inside_out(text, pattern)
    return text.str.extract(r"^([^<(\[]*)").str.strip_chars().str.extract(r"([^ ]*)$")


def _removed_inside_out(text: pl.Series, pattern: str) -> pl.Series:
    for _ in range(MAX_NESTING):
        shorter = text.str.replace_all(pattern, "")
        if shorter.equals(text):
            break
        text = shorter
    return text


def _last_component(name: pl.Series) -> pl.Series:
    """Return what stands behind the last `::` that is no lambda or call operator."""
    bare = name.str.replace(r"(?:::(?:operator_call|\{lambda.*))+$", "")
    return bare.str.extract(r"([^:]*)$").str.replace(_TRITON2_SUFFIX, "")
