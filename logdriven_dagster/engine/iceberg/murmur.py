"""Iceberg's bucket function in Spark columns: 32-bit Murmur3 with seed 0 over Iceberg's bytes.

Spark's own `hash` has another seed, and encodes numbers and trailing bytes of texts differently.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column

_WORD = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593


def bucket(hashed: "Column", number: int) -> "Column":
    """Return the bucket of a hash value."""
    return hashed.bitwiseAND(0x7FFFFFFF) % number


def hash_of_long(value: "Column") -> "Column":
    """Hash a bigint, which is how Iceberg hashes all integers, dates and timestamps."""
    low = value.bitwiseAND(_WORD)
    high = sf.shiftrightunsigned(value, 32)
    first = _add_word(sf.lit(0).cast("bigint"), low)
    return _let(first, lambda state: _complete_hash(_add_word(state, high), sf.lit(8)))


def hash_of_bytes(value: "Column") -> "Column":
    """Hash a binary, which is also how Iceberg hashes texts in UTF-8."""
    size, digits = sf.octet_length(value), sf.hex(value)
    whole = sf.shiftright(size, 2)
    indices = sf.when(whole > 0, sf.sequence(sf.lit(0), whole - 1))
    words = sf.transform(indices, lambda each: _word(digits, each * 4, 4))
    nothing = sf.array().cast("array<bigint>")
    state = sf.aggregate(sf.coalesce(words, nothing), sf.lit(0).cast("bigint"), _add_word)
    rest = _word(digits, whole * 4, 3)
    ended = _let(state, lambda each: each.bitwiseXOR(_mix_word(rest)))
    return sf.when(value.isNotNull(), _complete_hash(ended, size))


def _word(digits: "Column", first: "Column", most: int) -> "Column":
    """Return up to four bytes from a position as a little-endian number."""
    pairs = [sf.substring(digits, (first + n) * 2 + 1, sf.lit(2)) for n in reversed(range(most))]
    number = sf.conv(sf.concat(sf.lit("0"), *pairs), 16, 10)
    return number.cast("bigint")


def _let(value: "Column", then: "Callable[[Column], Column]") -> "Column":
    """Compute a value once for several uses: Spark would repeat its expression at each use."""
    return sf.element_at(sf.transform(sf.array(value), then), 1)


def _add_word(state: "Column", word: "Column") -> "Column":
    """Return the state of the hash after another word."""
    mixed = _let(_mix_word(word), lambda each: each.bitwiseXOR(state))
    turned = _let(mixed, lambda each: _rotate(each, 13))
    return (turned * 5 + sf.lit(0xE6546B64)).bitwiseAND(_WORD)


def _mix_word(word: "Column") -> "Column":
    return _let(word, lambda each: _times(_let(_times(each, _C1), lambda it: _rotate(it, 15)), _C2))


def _complete_hash(state: "Column", size: "Column") -> "Column":
    first = _let(state.bitwiseXOR(size.cast("bigint")), lambda each: _fold_word(each, 16))
    second = _let(_times_once(first, 0x85EBCA6B), lambda each: _fold_word(each, 13))
    third = _let(_times_once(second, 0xC2B2AE35), lambda each: _fold_word(each, 16))
    return sf.when(state.isNotNull(), third)


def _fold_word(word: "Column", by: int) -> "Column":
    return word.bitwiseXOR(sf.shiftright(word, by))


def _rotate(word: "Column", by: int) -> "Column":
    """Rotate 32 bits to the left."""
    up = sf.shiftleft(word, by)
    return up.bitwiseOR(sf.shiftright(word, 32 - by)).bitwiseAND(_WORD)


def _times_once(word: "Column", factor: int) -> "Column":
    return _let(word, lambda each: _times(each, factor))


def _times(word: "Column", factor: int) -> "Column":
    """Multiply modulo 2^32, without an intermediate result too large for a bigint."""
    low, high = factor & 0xFFFF, factor >> 16
    upper = sf.shiftleft((word * high).bitwiseAND(0xFFFF), 16)
    return (word * low + upper).bitwiseAND(_WORD)
