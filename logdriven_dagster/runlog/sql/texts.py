"""Texts that every database can store."""


def clean_text(text: str, length: int) -> str:
    """Remove NUL and lone surrogates, and cut a text to a length with a note."""
    note = " … (cut)"
    text = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= length else text[: length - len(note)] + note
